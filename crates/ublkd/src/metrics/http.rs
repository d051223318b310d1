//! The part of HTTP/1.1 (RFC 9112) that serving one page takes: a request's head is read, answered,
//! and the connection closed.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::HEAD_BYTES_MAX;

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    /// The page, or only its head.
    Page { body: bool },
    /// Anything else, which is answered with a status.
    Refused(&'static str),
}

/// Answers one request with `page`, if it asks for that.
pub(super) async fn talk<F>(mut stream: TcpStream, page: impl FnOnce() -> F) -> io::Result<()>
where
    F: Future<Output = Option<Arc<str>>>,
{
    let mut head = Vec::with_capacity(1024);
    let asked = loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break asked(&head[..end]);
        }
        if head.len() >= HEAD_BYTES_MAX {
            break Asked::Refused("431 Request Header Fields Too Large");
        }
        let mut limited = (&mut stream).take((HEAD_BYTES_MAX - head.len()) as u64);
        if limited.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    let answer = match asked {
        Asked::Refused(status) => answer(status, "text/plain", "", true),
        Asked::Page { body } => match page().await {
            Some(page) => answer("200 OK", "text/plain; version=0.0.4", &page, body),
            None => answer("503 Service Unavailable", "text/plain", "the array has ended\n", body),
        },
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// What the head of a request asks for.
fn asked(head: &[u8]) -> Asked {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Asked::Refused("400 Bad Request");
    };
    if !version.starts_with(b"HTTP/1.") {
        return Asked::Refused("400 Bad Request");
    }
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    match (method, path) {
        (b"GET", b"/metrics") => Asked::Page { body: true },
        (b"HEAD", b"/metrics") => Asked::Page { body: false },
        (b"GET" | b"HEAD", _) => Asked::Refused("404 Not Found"),
        _ => Asked::Refused("405 Method Not Allowed\r\nAllow: GET, HEAD"),
    }
}

fn answer(status: &str, kind: &str, body: &str, with_body: bool) -> String {
    let length = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_page_is_given() {
        let page = Asked::Page { body: true };
        assert_eq!(asked(b"GET /metrics HTTP/1.1\r\nHost: a"), page);
        assert_eq!(asked(b"GET /metrics?x=1 HTTP/1.0"), page);
        assert_eq!(asked(b"HEAD /metrics HTTP/1.1"), Asked::Page { body: false });
        for (head, status) in [
            (&b"GET / HTTP/1.1"[..], "404"),
            (b"GET /metrics/ HTTP/1.1", "404"),
            (b"POST /metrics HTTP/1.1", "405"),
            (b"GET /metrics HTTP/2.0", "400"),
            (b"GET /metrics", "400"),
            (b"GET  /metrics HTTP/1.1", "400"),
            (b"", "400"),
            (b"\xff\xfe\x00", "400"),
        ] {
            let refused = matches!(asked(head), Asked::Refused(why) if why.starts_with(status));
            assert!(refused, "{:?}", asked(head));
        }
    }
}
