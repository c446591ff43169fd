//! Messages between the processes of this program: a text and its file descriptors, delivered whole or
//! not at all.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

/// The longest text.
const TEXT_BYTES: usize = 64 << 10;
/// The most descriptors of one message.
const MAX_FILES: usize = 4;
/// Room for them.
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(MAX_FILES));

/// A connected pair of sockets. They preserve message boundaries.
pub(super) fn create_socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends `text` with `files`, at most four of them.
pub(super) fn send_message(
    socket: &impl AsFd,
    text: &[u8],
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let fits_files = files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files));
    if !fits_files || text.len() > TEXT_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    }
    sendmsg(socket, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message, or none once the other end is gone.
///
/// # Errors
/// Where the system refuses, or this process may not have the descriptors.
pub(super) fn receive_message(socket: &impl AsFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut text = vec![0u8; TEXT_BYTES];
    let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let parts = &mut [IoSliceMut::new(&mut text)];
    let received = recvmsg(socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            files.extend(descriptors);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE.into());
    }
    text.truncate(received.bytes);
    Ok((received.bytes > 0).then_some((text, files)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_message_comes_whole_with_its_files() {
        let (here, there) = create_socket_pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send_message(&here, b"with a file", &[writer.as_fd()]).unwrap();
        send_message(&here, b"without", &[]).unwrap();
        drop((here, writer));
        let (text, files) = receive_message(&there).unwrap().unwrap();
        assert_eq!((text.as_slice(), files.len()), (b"with a file".as_slice(), 1));
        let (text, none) = receive_message(&there).unwrap().unwrap();
        assert_eq!((text.as_slice(), none.len()), (b"without".as_slice(), 0));
        assert!(receive_message(&there).unwrap().is_none());
        for file in files {
            File::from(file).write_all(b"through").unwrap();
        }
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
