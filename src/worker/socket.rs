//! Messages between the processes of this program: a text and the descriptors that go with it, whole or
//! not at all.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The longest text.
const TEXT_BYTES: usize = 64 << 10;
/// The most descriptors of one message.
const MAX_FILES: usize = 4;
/// Room for the header of [`MAX_FILES`] descriptors, aligned as the system wants it.
const CONTROL_WORDS: usize = 8;

/// Two ends of a connection that keeps messages apart.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: fills in two new file descriptors, which are owned from here on.
    unsafe {
        if libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Sends `text` with `files`, at most four of them.
pub(super) fn send(socket: &impl AsRawFd, text: &[u8], files: &[RawFd]) -> io::Result<()> {
    if files.len() > MAX_FILES || text.len() > TEXT_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    }
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    let file_bytes = size_of_val(files) as u32;
    // SAFETY: the header is zeroed; its pointers are to `text`, which is only read, and to room
    // that `CONTROL_WORDS` makes large enough.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if !files.is_empty() {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(file_bytes) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(file_bytes) as _;
            let place = libc::CMSG_DATA(header).cast::<RawFd>();
            files.as_ptr().copy_to(place, files.len());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The next message; none once the other end is gone.
///
/// # Errors
/// Where the system refuses, or this process may not have the descriptors.
pub(super) fn receive(socket: &impl AsRawFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut text = vec![0u8; TEXT_BYTES];
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    let mut files = Vec::new();
    // SAFETY: the header is zeroed; its pointers are to buffers of the sizes that it tells. The
    // descriptors that came are nobody else's.
    let (received, is_cut) = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let received = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if received > 0 && !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let place = libc::CMSG_DATA(header).cast::<RawFd>();
            let count = bytes / size_of::<RawFd>();
            files.extend((0..count).map(|index| OwnedFd::from_raw_fd(*place.add(index))));
        }
        (received, message.msg_flags & libc::MSG_CTRUNC != 0)
    };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    if is_cut {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    text.truncate(received as usize);
    Ok((received > 0).then_some((text, files)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_message_comes_whole_with_its_files() {
        let (here, there) = pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(&here, b"with a file", &[writer.as_raw_fd()]).unwrap();
        send(&here, b"without", &[]).unwrap();
        drop((here, writer));
        let (text, files) = receive(&there).unwrap().unwrap();
        assert_eq!((text.as_slice(), files.len()), (b"with a file".as_slice(), 1));
        let (text, none) = receive(&there).unwrap().unwrap();
        assert_eq!((text.as_slice(), none.len()), (b"without".as_slice(), 0));
        assert!(receive(&there).unwrap().is_none());
        for file in files {
            File::from(file).write_all(b"through").unwrap();
        }
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
