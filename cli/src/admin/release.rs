/// The release a number on the wire stands for. Brokers and clients state the place of their release in a
/// list: two for each, the snapshot first, ten for each minor version.
//= rocketmq: MQVersion.getVersionDesc
pub(crate) fn release(version: i32) -> String {
    /// The snapshot of 4.0.0. The numbers before follow no rule.
    const FIRST: i32 = 212;
    let Some(since) = version.checked_sub(FIRST).filter(|since| *since >= 0) else {
        return if version > 0 {
            format!("3.x ({version})")
        } else {
            format!("unknown ({version})")
        };
    };
    let (minors, place) = (since / 20, since % 20);
    let (major, minor, patch) = (4 + minors / 10, minors % 10, place / 2);
    let snapshot = if place % 2 == 0 { "-SNAPSHOT" } else { "" };
    format!("{major}.{minor}.{patch}{snapshot}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_releases_are_javas() {
        let table = [
            (233, "4.1.0"),
            (353, "4.7.0"),
            (399, "4.9.3"),
            (400, "4.9.4-SNAPSHOT"),
            (401, "4.9.4"),
            (413, "5.0.0"),
            (433, "5.1.0"),
            (441, "5.1.4"),
            (475, "5.3.1"),
            (479, "5.3.3"),
            (493, "5.4.0"),
            (513, "5.5.0"),
            (121, "3.x (121)"),
            (0, "unknown (0)"),
            (i32::MIN, "unknown (-2147483648)"),
        ];
        for (version, want) in table {
            assert_eq!(release(version), want);
        }
        assert!(release(i32::MAX).starts_with("107"), "{}", release(i32::MAX));
    }
}
