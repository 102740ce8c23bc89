//! Memory of a process, as Linux reports it.

/// The bytes of a field of `/proc/PID/status` such as `VmRSS` (proc(5)), which is in kibibytes.
pub fn status_bytes(status: &str, field: &str) -> Option<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_parsed() {
        let status = "Name:\tx\nVmHWM:\t 9 kB\nVmRSS:\t    1234 kB\n";
        assert_eq!(status_bytes(status, "VmRSS"), Some(1234 * 1024));
        assert_eq!(status_bytes(status, "VmHWM"), Some(9 * 1024));
        assert_eq!(status_bytes("VmRSS:\t  8 kB\n", "VmRSS"), Some(8192));
        for odd in ["", "VmRSS:\t x kB\n", "VmRSS:\t 1 MB\n"] {
            assert_eq!(status_bytes(odd, "VmRSS"), None, "{odd:?}");
        }
    }
}
