//! What a mail says when it is handed over, and how it is found again in a transcript.

use host_abi::gates::CustomMessage;
use serde_json::json;

use crate::{
    core::mail::{MAIL_TEXT_MARK, MailKind, Urgency, platform_prefix},
    error::{Code, SubagentError},
    ledger::{messages::MessageRow, nodes::NodeRow},
    orchestrator::report::MailText,
};

/// Hard limit of a subject, in bytes.
pub const SUBJECT_BYTES: usize = 256;
/// A body above this is accepted with a warning, in bytes.
pub const BODY_SOFT_BYTES: usize = 4096;
/// Hard limit of a body, in bytes.
pub const BODY_HARD_BYTES: usize = 32768;

/// A mail as an agent wrote it, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub to: To,
    /// Line breaks are spaces here (MAIL-6).
    pub subject: String,
    pub body: String,
    pub kind: MailKind,
    pub urgency: Urgency,
}

/// Whom a mail means (MAIL-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    Parent,
    Children,
    /// The other children of the sender's parent.
    Squad,
}

impl To {
    pub const ALL: [Self; 3] = [Self::Parent, Self::Children, Self::Squad];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Children => "children",
            Self::Squad => "squad",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|to| to.as_str() == word)
    }
}

impl Draft {
    /// Checks the texts (MAIL-5); nothing is truncated.
    ///
    /// # Errors
    /// The refusals of MAIL-5 but the rate, which the ledger judges.
    pub fn new(
        to: To,
        subject: &str,
        body: &str,
        kind: MailKind,
        urgency: Option<Urgency>,
    ) -> Result<Self, SubagentError> {
        let refuse = |code, text: String| Err(SubagentError::new(code, text));
        if subject.contains('\0') || body.contains('\0') {
            return refuse(Code::MailInvalidText, "mail text must not contain U+0000".to_owned());
        }
        let subject = subject.replace("\r\n", " ").replace(['\n', '\r'], " ");
        if subject.trim().is_empty() {
            return refuse(Code::MailInvalidText, "mail subject must not be empty".to_owned());
        }
        if body.trim().is_empty() {
            return refuse(Code::MailInvalidText, "mail body must not be empty".to_owned());
        }
        if subject.len() > SUBJECT_BYTES {
            let n = subject.len();
            return refuse(
                Code::MailSubjectTooLong,
                format!("mail subject is {n} bytes; the limit is {SUBJECT_BYTES}"),
            );
        }
        if body.len() > BODY_HARD_BYTES {
            let n = body.len();
            let text = format!(
                "mail body is {n} bytes; the limit is {BODY_HARD_BYTES} — write it to a file and send the path"
            );
            return refuse(Code::MailBodyTooLarge, text);
        }
        if let Some(prefix) = platform_prefix(&subject) {
            let text = format!("subject must not start with '{prefix}': reserved for the platform");
            return refuse(Code::MailReservedSubject, text);
        }
        let urgency = urgency.unwrap_or(kind.default_urgency());
        Ok(Self { to, subject, body: body.to_owned(), kind, urgency })
    }

    /// The warning of a body that is accepted and long (MAIL-6).
    pub fn warning(&self) -> Option<String> {
        (self.body.len() > BODY_SOFT_BYTES).then(|| {
            format!(
                "body is {} bytes; keep mails under {BODY_SOFT_BYTES} bytes and put long material in a file",
                self.body.len()
            )
        })
    }
}

/// The text that the recipient reads (MAIL-21); `sender` is the sender's row.
pub fn handed_over(message: &MessageRow, sender: &NodeRow) -> MailText {
    let MessageRow { id, subject, body, kind, urgency, .. } = message;
    let (kind, urgency) = (kind.as_str(), urgency.as_str());
    MailText {
        id: *id,
        from: sender.name.clone(),
        kind: kind.to_owned(),
        urgency: urgency.to_owned(),
        subject: subject.clone(),
        text: format!(
            "{MAIL_TEXT_MARK}{id}] {kind} from {} ({}) · {urgency}\nSubject: {subject}\n\n{body}",
            sender.name, sender.role
        ),
    }
}

/// Type of the messages that carry mail to root.
pub const MAIL_TYPE: &str = "legion-mail";

/// A mail as a message of the root's session (NTF-4).
pub fn mail_message(mail: &MailText) -> CustomMessage {
    let MailText { id, from, kind, urgency, subject, text } = mail;
    CustomMessage {
        custom_type: MAIL_TYPE.to_owned(),
        content: text.clone(),
        display: true,
        details: Some(json!({
            "schema": "legion.notice/1",
            "kind": "mail",
            "mail": { "id": id, "from": from, "kind": kind, "urgency": urgency, "subject": subject },
        })),
    }
}

/// Whether a text of a transcript holds the handed-over mail whole (MAIL-22).
pub fn mail_matches_user_text(mail: &str, transcript_text: &str) -> bool {
    let normal = |text: &str| -> String {
        let text = text.replace("\r\n", "\n");
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    };
    normal(transcript_text).contains(&normal(mail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::mail::PLATFORM_PREFIXES;

    fn draft(subject: &str, body: &str) -> Result<Draft, SubagentError> {
        Draft::new(To::Parent, subject, body, MailKind::Report, None)
    }

    fn code(result: Result<Draft, SubagentError>) -> (Code, String) {
        let error = result.expect_err("refused");
        (error.code, error.message)
    }

    /// MAIL-5, MAIL-6, MAIL-8, 08-T2: a refused text never becomes a draft, and only a draft can be sent.
    #[test]
    fn limits_hold_at_the_exact_byte() {
        assert!(draft(&"s".repeat(256), "b").is_ok());
        let (c, text) = code(draft(&"s".repeat(257), "b"));
        assert_eq!((c, text.as_str()), (Code::MailSubjectTooLong, "mail subject is 257 bytes; the limit is 256"));
        // Three bytes a character: 85 fit, 86 do not.
        assert!(draft(&"字".repeat(85), "b").is_ok());
        assert_eq!(code(draft(&"字".repeat(86), "b")).0, Code::MailSubjectTooLong);
        assert_eq!(draft("s", &"b".repeat(4096)).expect("fits").warning(), None);
        assert_eq!(
            draft("s", &"b".repeat(4097)).expect("fits").warning().as_deref(),
            Some("body is 4097 bytes; keep mails under 4096 bytes and put long material in a file")
        );
        assert!(draft("s", &"b".repeat(32768)).is_ok());
        assert_eq!(
            code(draft("s", &"b".repeat(32769))),
            (
                Code::MailBodyTooLarge,
                "mail body is 32769 bytes; the limit is 32768 — write it to a file and send the path".to_owned()
            )
        );
        assert_eq!(code(draft("a\0", "b")).1, "mail text must not contain U+0000");
        assert_eq!(code(draft("a", "b\0")).0, Code::MailInvalidText);
        assert_eq!(code(draft(" \n", "b")).1, "mail subject must not be empty");
        assert_eq!(code(draft("a", " ")).1, "mail body must not be empty");
        for prefix in PLATFORM_PREFIXES {
            let (c, text) = code(draft(&format!("{prefix}x"), "b"));
            assert_eq!(c, Code::MailReservedSubject);
            assert_eq!(text, format!("subject must not start with '{prefix}': reserved for the platform"));
        }
        assert_eq!(draft("a\r\nb\nc", "b").expect("fits").subject, "a b c");
    }

    /// MAIL-2
    #[test]
    fn a_question_is_urgent_unless_it_says_otherwise() {
        let of = |kind, urgency| Draft::new(To::Parent, "s", "b", kind, urgency).expect("fits").urgency;
        assert_eq!(of(MailKind::Question, None), Urgency::ActionNeeded);
        assert_eq!(of(MailKind::Report, None), Urgency::Info);
        assert_eq!(of(MailKind::Question, Some(Urgency::Info)), Urgency::Info);
    }

    /// MAIL-22
    #[test]
    fn a_mail_is_found_whole_whatever_the_line_ends() {
        let mail = "[legion mail #7] report from a (scout) · info\nSubject: s\n\nline one\nline two";
        assert!(mail_matches_user_text(mail, &format!("before\n{}\nafter", mail.replace('\n', "\r\n"))));
        assert!(mail_matches_user_text(mail, &mail.replace("one\n", "one  \n")));
        assert!(!mail_matches_user_text(mail, &mail[..mail.len() - 1]));
    }
}
