//! A TUN device: with the kernel's segmentation offloads, or plain.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::info;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Of what protocols a device takes and gives superpackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Offloads {
    /// TCP, over both versions of IP.
    pub(crate) tcp: bool,
    /// UDP, over both; Linux has it since 6.2.
    pub(crate) udp: bool,
}

impl Offloads {
    /// Whether an [`OffloadHeader`](crate::offload::OffloadHeader) precedes each packet.
    pub(crate) fn has_headers(self) -> bool {
        self.tcp
    }
}

/// A TUN device that nobody reads yet. It goes when its last copy is closed, for which the kernel
/// may wait for its tables: that is not for the thread that forwards.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    tun: Tun,
    offloads: Offloads,
}

/// A TUN device of our own.
pub(crate) struct Device {
    tun: Tun,
    /// Wakes the task that reads; `None` while nobody shall be woken.
    wakeups: Option<AsyncFd<Tun>>,
    offloads: Offloads,
}

#[derive(Clone)]
struct Tun(Arc<SyncDevice>);

impl fmt::Debug for Tun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tun").field(&self.as_raw_fd()).finish()
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Opened {
    /// Creates a device, which is down. With `offload` it has what offloads the kernel has.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn create(name: &str, offload: bool) -> io::Result<Self> {
        let build = |offload| {
            let builder = DeviceBuilder::new().name(name).enable(false);
            builder.offload(offload).build_sync()
        };
        let tun = match build(offload) {
            // A kernel that does not know them.
            Err(error) if offload && error.kind() == io::ErrorKind::InvalidInput => {
                info!(
                    tun = name,
                    "this kernel has no segmentation offloads for TUN devices; forwarding without"
                );
                build(false)?
            }
            built => built?,
        };
        tun.set_nonblocking(true)?;
        let offloads = Offloads {
            tcp: tun.tcp_gso(),
            udp: tun.udp_gso(),
        };
        if offloads.tcp && !offloads.udp {
            info!(
                tun = name,
                "this kernel has no segmentation offload for UDP on TUN devices (Linux 6.2 has it); \
                 forwarding datagrams one by one"
            );
        }
        Ok(Self {
            tun: Tun(Arc::new(tun)),
            offloads,
        })
    }
}

impl Device {
    /// Begins to read. Call it within a tokio runtime.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn read(opened: Opened) -> io::Result<Self> {
        let mut device = Self {
            tun: opened.tun,
            wakeups: None,
            offloads: opened.offloads,
        };
        device.listen()?;
        Ok(device)
    }

    /// What it has.
    pub(crate) fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Lets packets wake the task that reads.
    ///
    /// # Errors
    /// The system's.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that others may close; this one is owned"
    )]
    pub(crate) fn listen(&mut self) -> io::Result<()> {
        if self.wakeups.is_none() {
            let tun = self.tun.clone();
            self.wakeups = Some(AsyncFd::with_interest(tun, Interest::READABLE)?);
        }
        Ok(())
    }

    /// Whether packets wake the task that reads.
    pub(crate) fn listens(&self) -> bool {
        self.wakeups.is_some()
    }

    /// Lets packets wait until somebody reads.
    pub(crate) fn mute(&mut self) {
        self.wakeups = None;
    }

    /// Reads a packet, with its header if the device has them. When there is none, the task is woken
    /// for the next unless the device is [mute](Device::mute).
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(wakeups) = &self.wakeups else {
            return match self.tun.0.recv(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                read => Poll::Ready(read),
            };
        };
        loop {
            let mut guard = ready!(wakeups.poll_read_ready(cx))?;
            if let Ok(read) = guard.try_io(|tun| tun.get_ref().0.recv(buffer)) {
                return Poll::Ready(read);
            }
        }
    }

    /// Writes a packet, with its header if the device has them. The device takes it at once or
    /// refuses it: it has no queue in this direction.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn write(&self, packet: &[IoSlice<'_>]) -> io::Result<()> {
        self.tun.0.send_vectored(packet).map(drop)
    }
}
