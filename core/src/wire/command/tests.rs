use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::fastjson::SyntaxError;
use super::super::frame::{FRAME_LEN_MAX, FrameError};
use super::*;

fn json(text: &str) -> Result<Header<'_>, HeaderError> {
    Header::decode(HeaderForm::Json, text.as_bytes())
}

fn fields(list: &[(&'static str, &'static str)]) -> ExtFields<'static> {
    let mut ext = ExtFields::new();
    for &(name, value) in list {
        ext.set(name, value).unwrap();
    }
    ext
}

fn command<'a, E: ?Sized>(ext: &'a E, body: &'a [u8]) -> Command<'a, E> {
    Command {
        code: 11,
        language: Language::Rust,
        version: VERSION,
        opaque: 24,
        flag: 0,
        remark: None,
        ext,
        body,
    }
}

const PULL_ANSWER: &str = r#"{"code":0,"extFields":{"suggestWhichBrokerId":"0","groupSysFlag":"0","nextBeginOffset":"2","maxOffset":"2","minOffset":"0","topicSysFlag":"0"},"flag":1,"language":"JAVA","opaque":24,"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":513}"#;

#[test]
fn a_body_may_come_in_parts() {
    for form in [HeaderForm::Json, HeaderForm::Rocketmq] {
        let whole = command(&(), b"onetwothree").encode(form).unwrap();
        let parts = command(&(), b"one").encode_with(form, &["two", "", "three"]);
        assert_eq!(parts.unwrap(), whole);
    }
    let large = Bytes::from(alloc::vec![0_u8; 9 << 20]);
    let too_large = command(&(), b"").encode_with(HeaderForm::Json, &[&large, &large]);
    assert!(matches!(too_large, Err(FrameError::Length { .. })));
}

#[test]
fn a_typical_answer_borrows_everything() {
    let header = json(PULL_ANSWER).unwrap();
    assert!(header.is_response() && !header.is_oneway());
    assert_eq!((header.code, header.opaque, header.version), (0, 24, 513));
    assert_eq!(header.language, Some(Language::Java));
    assert!(matches!(header.remark, Some(Cow::Borrowed("FOUND"))));
    assert_eq!(header.ext.require_i64("nextBeginOffset"), Ok(2));
    assert_eq!(header.ext.len(), 6);
    let within = PULL_ANSWER.as_bytes().as_ptr_range();
    for (name, value) in header.ext.iter() {
        assert!(within.contains(&name.as_ptr()) && within.contains(&value.as_ptr()));
    }
}

#[test]
fn members_are_taken_as_fastjson_takes_them() {
    let code = |text: &str| json(text).map(|header| header.code);
    let member = Err(HeaderError::Member { member: "code" });
    for (text, want) in [
        ("{}", Ok(0)),
        (r#"{"code":1,"code":2}"#, Ok(2)),
        (r#"{"code":"-11"}"#, Ok(-11)),
        (r#"{"code":11.9}"#, Ok(11)),
        (r#"{"code":-1.5}"#, Ok(-1)),
        (r#"{"code":1e2}"#, Ok(100)),
        (r#"{"code":null}"#, Ok(0)),
        (r#"{"code":true}"#, Ok(1)),
        (r#"{"code":2147483648}"#, member),
        (r#"{"code":1e10}"#, member),
        (r#"{"code":"1e2"}"#, member),
        (r#"{"code":""}"#, member),
        (r#"{"code":[1]}"#, member),
        ("[]", Err(HeaderError::NotAnObject)),
        ("null", Err(HeaderError::NotAnObject)),
        (
            "{} {}",
            Err(HeaderError::Syntax(SyntaxError {
                at: 3,
                expected: "the end",
            })),
        ),
    ] {
        assert_eq!(code(text), want, "{text}");
    }
}

#[test]
fn ext_values_become_text_and_null_is_absent() {
    let header = json(
        r#"{"extFields":{"n":1.50,"b":true,"z":null,"l":[1,{"x":2}],"again":1,"again":"2","gone":1,"gone":null}}"#,
    )
    .unwrap();
    assert_eq!(
        header.ext,
        fields(&[("n", "1.50"), ("b", "true"), ("again", "2")])
    );
    let refused = Err(HeaderError::Member { member: "extFields" });
    assert_eq!(json(r#"{"extFields":"x"}"#), refused);
    assert_eq!(json(r#"{"extFields":[]}"#), refused);
    assert!(json(r#"{"extFields":null}"#).unwrap().ext.is_empty());
}

#[test]
fn a_field_says_what_is_wrong_with_it() {
    let ext = fields(&[
        ("a", "12"),
        ("b", "x"),
        ("c", "3000000000"),
        ("d", "TRUE"),
        ("e", "yes"),
    ]);
    assert_eq!(ext.get_i32("a"), Ok(Some(12)));
    assert_eq!(ext.get_i32("none"), Ok(None));
    assert_eq!(ext.require_i32("none"), Err(FieldError::missing("none")));
    assert_eq!(ext.get_i64("c"), Ok(Some(3_000_000_000)));
    assert_eq!(
        (ext.get_bool("d"), ext.get_bool("e"), ext.get_bool("f")),
        (Some(true), Some(false), None)
    );
    for field in ["b", "c"] {
        assert_eq!(
            ext.get_i32(field),
            Err(FieldError::new(field, FieldFault::NotANumber))
        );
    }
    assert_eq!(
        ext.get_i32("b").unwrap_err().to_string(),
        "field b is not a number of the right size"
    );
}

#[test]
fn the_number_of_fields_is_bounded_in_both_forms() {
    let many: Vec<(String, String)> = (0..=EXT_FIELDS_MAX)
        .map(|i| (i.to_string(), "v".into()))
        .collect();
    struct Many(Vec<(String, String)>);
    impl WriteExt for Many {
        fn write_ext(&self, out: &mut ExtWriter<'_>) {
            self.0.iter().for_each(|(name, value)| out.text(name, value));
        }
    }
    let mut many = Many(many);
    let decoded = |many: &Many, form| {
        let frame = Frame::parse(command(many, b"").encode(form).unwrap(), FRAME_LEN_MAX).unwrap();
        Header::of(&frame).map(|header| header.ext.len())
    };
    for form in [HeaderForm::Json, HeaderForm::Rocketmq] {
        assert_eq!(
            decoded(&many, form),
            Err(HeaderError::TooManyFields {
                limit: EXT_FIELDS_MAX
            })
        );
    }
    many.0.pop();
    for form in [HeaderForm::Json, HeaderForm::Rocketmq] {
        assert_eq!(decoded(&many, form), Ok(EXT_FIELDS_MAX));
    }
}

#[test]
fn the_bytes_are_those_a_broker_has_accepted() {
    let ext = fields(&[("topic", "TBW102")]);
    let route = Command {
        code: 105,
        opaque: 77,
        ..command(&ext, b"")
    };
    assert_eq!(
        &route.encode(HeaderForm::Rocketmq).unwrap()[..],
        b"\0\0\0\x2a\x01\0\0\x26\0\x69\x0c\x02\x01\0\0\0\x4d\0\0\0\0\0\0\0\0\0\0\0\x11\0\x05topic\0\0\0\x06TBW102"
    );
    assert_eq!(
        &route.encode(HeaderForm::Json).unwrap()[8..],
        br#"{"code":105,"version":513,"opaque":77,"flag":0,"language":"RUST","extFields":{"topic":"TBW102"}}"#
    );
}

#[test]
fn what_the_binary_form_cannot_carry_is_written_in_json() {
    let long = fields(&[]);
    let name = "n".repeat(40_000);
    let mut long_name = ExtFields::new();
    long_name.set(name, "v").unwrap();
    for (command, want) in [
        (command(&long, b""), HeaderForm::Rocketmq),
        (
            Command {
                code: 200_050,
                ..command(&long, b"")
            },
            HeaderForm::Json,
        ),
        (command(&long_name, b""), HeaderForm::Json),
    ] {
        let code = command.code;
        let frame = Frame::parse(command.encode(HeaderForm::Rocketmq).unwrap(), FRAME_LEN_MAX).unwrap();
        assert_eq!(frame.form, want);
        assert_eq!(Header::of(&frame).unwrap().code, code);
    }
}

#[test]
fn a_frame_beyond_the_limit_is_not_written() {
    let ext = ExtFields::new();
    let body = alloc::vec![0; FRAME_LEN_MAX as usize];
    assert!(matches!(
        command(&ext, &body).encode(HeaderForm::Json),
        Err(FrameError::Length { .. })
    ));
}

#[test]
fn a_signature_can_be_added_to_a_finished_frame() {
    let ext = fields(&[("topic", "t")]);
    let unsigned = command(&ext, b"body").encode(HeaderForm::Json).unwrap();
    let frame = Frame::parse(unsigned, FRAME_LEN_MAX).unwrap();
    let mut header = Header::of(&frame).unwrap();
    header.ext.set("Signature", "s").unwrap();
    let signed = header.to_command(&frame.body).encode(frame.form).unwrap();
    let signed = Frame::parse(signed, FRAME_LEN_MAX).unwrap();
    let again = Header::of(&signed).unwrap();
    assert!(again.ext.iter().eq([("topic", "t"), ("Signature", "s")]));
    assert_eq!((again.code, again.opaque), (header.code, header.opaque));
    assert_eq!(signed.body, frame.body);
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z]{0,12}",
        "\\PC{0,8}",
        prop::collection::vec(any::<char>(), 0..6).prop_map(|chars| chars.into_iter().collect()),
    ]
}

proptest! {
    #[test]
    fn decoding_gives_back_what_was_encoded(
        binary in any::<bool>(),
        code in any::<i32>(),
        opaque in any::<i32>(),
        flag in any::<i32>(),
        version in 0..600,
        remark in prop::option::of(any_text()),
        pairs in prop::collection::btree_map(any_text(), any_text(), 0..16),
        body in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let form = if binary { HeaderForm::Rocketmq } else { HeaderForm::Json };
        let mut ext = ExtFields::new();
        for (name, value) in &pairs {
            ext.set(name.as_str(), value.as_str()).unwrap();
        }
        let command = Command { code, opaque, flag, version, remark: remark.as_deref(), ..command(&ext, &body) };
        let bytes = command.encode(form).unwrap();
        let frame = Frame::parse(bytes, FRAME_LEN_MAX).unwrap();
        let header = Header::of(&frame).unwrap();
        // The binary form has no empty text.
        let kept = pairs.iter().filter(|(name, value)| frame.form == HeaderForm::Json || !(name.is_empty() || value.is_empty()));
        prop_assert!(header.ext.iter().eq(kept.map(|(name, value)| (name.as_str(), value.as_str()))));
        prop_assert_eq!((header.code, header.opaque, header.flag, header.version), (code, opaque, flag, version));
        prop_assert_eq!(header.remark.as_deref(), remark.as_deref().filter(|text| !text.is_empty()));
        prop_assert_eq!(header.language, Some(Language::Rust));
        prop_assert_eq!(&frame.body[..], &body[..]);
    }

    #[test]
    fn noise_never_panics(binary in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let form = if binary { HeaderForm::Rocketmq } else { HeaderForm::Json };
        let _ = Header::decode(form, &bytes);
    }

    #[test]
    fn a_damaged_header_never_panics(at in 0..PULL_ANSWER.len(), byte in any::<u8>(), cut in 0..PULL_ANSWER.len()) {
        let mut bytes = PULL_ANSWER.as_bytes().to_vec();
        bytes[at] = byte;
        bytes.truncate(cut);
        prop_assert!(Header::decode(HeaderForm::Json, &bytes).is_err());
        let frame = command(&json(PULL_ANSWER).unwrap().ext, b"").encode(HeaderForm::Rocketmq).unwrap();
        let mut header = Bytes::copy_from_slice(&frame[8..]).to_vec();
        let at = at % header.len();
        header[at] = byte;
        let _ = Header::decode(HeaderForm::Rocketmq, &header);
    }
}
