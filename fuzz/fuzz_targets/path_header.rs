//! A UDP payload at an endpoint: taking off what may be a header, and stamping it without a packet.
#![no_main]

use evenkeel_fuzz::check_round_trip;
use evenkeel_fuzz::datagram::Payload;
use evenkeel_wire::{
    PATH_HEADER_LEN, PathHeaderMut, PathHeaderPrefix, PathHeaderView, split_path_header,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(Payload {
        operations,
        mut bytes,
    }) = Payload::read(input)
    else {
        return;
    };
    match split_path_header(&bytes) {
        None => assert!(PathHeaderView::parse(&bytes).is_err()),
        Some((prefix, rest)) => {
            assert!(bytes.ends_with(rest));
            assert!((8..=PATH_HEADER_LEN).contains(&(bytes.len() - rest.len())));
            if let PathHeaderPrefix::Known(view) = prefix {
                assert_eq!(bytes.len() - rest.len(), PATH_HEADER_LEN);
                check_round_trip(&view);
            }
        }
    }
    if let Ok(mut header) = PathHeaderMut::parse(&mut bytes) {
        for operation in operations {
            operation.apply_checked(&mut header);
        }
    }
});
