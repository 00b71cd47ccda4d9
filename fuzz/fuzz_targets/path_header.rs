//! A UDP payload at an endpoint: taking off what may be a header, and stamping it without a packet.
#![no_main]

use evenkeel_fuzz::{Operation, check_round_trip};
use evenkeel_wire::{
    PATH_HEADER_LEN, PATH_HEADER_MAGIC, PathHeaderMut, PathHeaderPrefix, PathHeaderView,
    split_path_header,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, Vec<u8>, Vec<Operation>)| {
    let (with_magic, mut payload, operations) = input;
    if with_magic && payload.len() >= PATH_HEADER_MAGIC.len() {
        payload[..PATH_HEADER_MAGIC.len()].copy_from_slice(&PATH_HEADER_MAGIC);
    }
    match split_path_header(&payload) {
        None => assert!(PathHeaderView::parse(&payload).is_err()),
        Some((prefix, rest)) => {
            assert!(payload.ends_with(rest));
            assert!((8..=PATH_HEADER_LEN).contains(&(payload.len() - rest.len())));
            if let PathHeaderPrefix::Known(view) = prefix {
                assert_eq!(payload.len() - rest.len(), PATH_HEADER_LEN);
                check_round_trip(&view);
            }
        }
    }
    if let Ok(mut header) = PathHeaderMut::parse(&mut payload) {
        for operation in operations {
            operation.apply_checked(&mut header);
        }
    }
});
