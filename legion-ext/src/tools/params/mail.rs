//! `legion_mail`: what is sent, judged by the mailroom's own rules (MAIL-5).

use super::Args;
use crate::{
    core::mail::{MailKind, Urgency},
    error::Result,
    mail::text::{Draft, To},
};

pub(super) fn read(args: &Args<'_>) -> Result<Draft> {
    let to = args.raw_text("to").and_then(To::parse).expect("the schema requires one of its words");
    let text = |key| args.raw_text(key).unwrap_or_default();
    let kind = args.raw_text("kind").and_then(MailKind::parse).unwrap_or(MailKind::Report);
    Draft::new(to, text("subject"), text("body"), kind, args.raw_text("urgency").and_then(Urgency::parse))
}
