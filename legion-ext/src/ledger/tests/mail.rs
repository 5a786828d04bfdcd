use serde_json::json;

use super::*;
use crate::core::mail::{
    Delivery, DeliveryChange, MAIL_DELIVERY_CLAIM_LEASE_MS as LEASE, MailKind, Urgency, next_delivery,
};
use crate::ledger::messages::{
    Claim, NewMail, Quota, claim_for_delivery, count_for_recipient, for_recipient, get, in_state, newest,
    pending_to_terminal, redeliver_mail, release_delivery_claim, renew_delivery_claim, send, transition_delivery,
};

fn mail<'a>(from_node: &'a str, to_nodes: &'a [&'a str], subject: &'a str) -> NewMail<'a> {
    NewMail { from_node, to_nodes, subject, body: "body", kind: MailKind::Question, urgency: Urgency::ActionNeeded }
}

/// A tree with a sender and two recipients.
fn squad() -> (TempDir, LegionDb) {
    let (dir, db) = fresh();
    db.write(|tx| {
        for name in ["a", "b", "c"] {
            run(tx, "root", name)?;
        }
        Ok(())
    })
    .unwrap();
    (dir, db)
}

fn post(db: &LegionDb, to: &str) -> i64 {
    db.write(|tx| send(tx, &mail("root/a", &[to], "s"), Quota::Platform, NOW)).unwrap().unwrap()[0]
}

fn change(db: &LegionDb, id: i64, from: Delivery, change: DeliveryChange, claim: Option<&Claim>) -> bool {
    db.write(|tx| transition_delivery(tx, id, from, change, claim, NOW + 1)).unwrap()
}

/// MAIL-7, MAIL-8, part of 08-T3
#[test]
fn the_rate_counts_agents_rows_and_refuses_the_whole_send() {
    let (_dir, db) = squad();
    let limit = Quota::PerFiveMinutes(3);
    let sent = |to: &[&str], subject: &str, quota, now| {
        db.write(|tx| send(tx, &mail("root/a", to, subject), quota, now)).unwrap()
    };
    assert_eq!(sent(&["root/b", "root/c"], "s", limit, NOW), Ok(vec![1, 2]));
    assert_eq!(sent(&["root/b"], "Stall notice: x", Quota::Platform, NOW), Ok(vec![3]));
    let refusal = sent(&["root/b", "root/c"], "s", limit, NOW + 1000).unwrap_err();
    assert_eq!(refusal.to_string(), "mail rate limit reached (2/3 in 5 minutes); retry in 299s");
    assert_eq!(events_of(&db, "root/a").len(), 4, "launched and three sent");
    assert_eq!(sent(&["root/b"], "s", limit, NOW + 1000), Ok(vec![4]));
    assert!(sent(&["root/b"], "s", limit, NOW + 299_999).is_err());
    assert_eq!(sent(&["root/b"], "s", limit, NOW + 300_000), Ok(vec![5]), "the window has moved");
    let told = events_of(&db, "root/a").into_iter().nth(1).unwrap();
    let data = json!({"messageId": 1, "to": "root/b", "kind": "question", "urgency": "action-needed"});
    assert_eq!(told, ("mail_sent".into(), data));
}

/// MAIL-10, MAIL-11, part of 08-T4
#[test]
fn each_change_writes_its_event_and_a_lost_race_nothing() {
    let (_dir, db) = squad();
    let changes = [
        DeliveryChange::Accept,
        DeliveryChange::Confirm,
        DeliveryChange::BounceTerminal,
        DeliveryChange::BounceIntercepted,
        DeliveryChange::Discard,
    ];
    for from in Delivery::ALL {
        for wanted in changes {
            let id = post(&db, "root/b");
            db.write(|tx| {
                Ok(tx.raw().execute("UPDATE messages SET delivered = ?1 WHERE id = ?2", [from.value(), id])?)
            })
            .unwrap();
            let told = events_of(&db, "root/a").len();
            let before = db.read(|conn| get(conn, id)).unwrap();
            match next_delivery(from, wanted) {
                Ok(step) => {
                    let others = Delivery::ALL.into_iter().filter(|other| *other != from);
                    for other in others.filter(|other| next_delivery(*other, wanted).is_ok()) {
                        assert!(!change(&db, id, other, wanted, None), "it is not {other}");
                    }
                    assert_eq!(db.read(|conn| get(conn, id)).unwrap(), before);
                    assert!(change(&db, id, from, wanted, None));
                    let after = db.read(|conn| get(conn, id)).unwrap().unwrap();
                    assert_eq!((after.delivered, after.delivered_at), (step.to, Some(NOW + 1)));
                    assert_eq!(events_of(&db, "root/a").len(), told + usize::from(step.event.is_some()));
                    assert!(!change(&db, id, from, wanted, None), "only once");
                }
                Err(_) => {
                    let error = db.write(|tx| transition_delivery(tx, id, from, wanted, None, NOW)).unwrap_err();
                    assert_eq!(error.to_string(), format!("mail #{id}: illegal mail change {wanted:?} from {from}"));
                    assert_eq!(db.read(|conn| get(conn, id)).unwrap(), before);
                    assert_eq!(events_of(&db, "root/a").len(), told);
                }
            }
        }
    }
    let id = post(&db, "root/b");
    change(&db, id, Delivery::Pending, DeliveryChange::BounceIntercepted, None);
    let data = json!({"messageId": id, "to": "root/b", "reason": "intercepted"});
    assert_eq!(events_of(&db, "root/a").pop().unwrap(), ("mail_bounced".into(), data));
}

/// MAIL-13 … MAIL-16, part of 08-T5
#[test]
fn a_claim_is_held_by_its_stamp() {
    let (_dir, db) = squad();
    let id = post(&db, "root/b");
    let claim = |now: i64| db.write(|tx| claim_for_delivery(tx, id, now, LEASE)).unwrap();
    let mut first = claim(NOW).unwrap();
    assert_eq!(claim(NOW + LEASE - 1), None);

    // Renewing keeps it past its first lease; a foreign stamp can neither renew nor release it.
    assert!(db.write(|tx| renew_delivery_claim(tx, &mut first, NOW + 20_000)).unwrap());
    assert_eq!(claim(NOW + LEASE), None);
    let mut foreign = Claim { message_id: id, stamp: NOW };
    assert!(!db.write(|tx| renew_delivery_claim(tx, &mut foreign, NOW + 30_000)).unwrap());
    db.write(|tx| release_delivery_claim(tx, foreign)).unwrap();
    assert_eq!(claim(NOW + LEASE), None);
    assert!(!change(&db, id, Delivery::Pending, DeliveryChange::Accept, Some(&foreign)));

    // Crash: claimable once the lease is over, and the old owner has lost it.
    let second = claim(NOW + 20_000 + LEASE).unwrap();
    assert!(!change(&db, id, Delivery::Pending, DeliveryChange::Accept, Some(&first)));
    db.write(|tx| release_delivery_claim(tx, second)).unwrap();
    let third = claim(NOW).unwrap();
    // A stamp far in the future has expired.
    assert!(claim(NOW - LEASE - 1).is_some());
    assert!(!change(&db, id, Delivery::Pending, DeliveryChange::Accept, Some(&third)));
    let fourth = claim(NOW + 5 * LEASE).unwrap();
    assert!(change(&db, id, Delivery::Pending, DeliveryChange::Accept, Some(&fourth)));
    assert_eq!(claim(NOW + 50 * LEASE), None, "it is no longer pending");
}

/// MAIL-33, part of 08-T12
#[test]
fn a_dropped_result_redelivers_once() {
    let (_dir, db) = squad();
    let first = post(&db, "root/b");
    let redeliver = |id| db.write(|tx| redeliver_mail(tx, id, NOW + 2)).unwrap();
    assert_eq!(redeliver(first), None, "it was not taken");
    change(&db, first, Delivery::Pending, DeliveryChange::Accept, None);
    let second = redeliver(first).unwrap();
    assert_eq!(redeliver(first), None);
    change(&db, second, Delivery::Pending, DeliveryChange::Accept, None);
    let third = redeliver(second).unwrap();
    let row = |id| db.read(|conn| get(conn, id)).unwrap().unwrap();
    assert_eq!((row(first).delivered, row(second).delivered), (Delivery::Obsolete, Delivery::Obsolete));
    let last = row(third);
    assert_eq!((last.subject.as_str(), last.delivered), ("Redelivered: s", Delivery::Pending));
    assert_eq!((last.body.as_str(), last.urgency), ("body", Urgency::ActionNeeded));
    let told = events_of(&db, "root/a").pop().unwrap();
    assert_eq!(told.1["redeliveryOf"], json!(second));
}

/// Rows are found by recipient and state, in order; an unreadable one is reported and stops nobody.
#[test]
fn inboxes_are_in_order_and_tolerant() {
    let (_dir, db) = squad();
    let ids: Vec<i64> = ["root/b", "root/c", "root/b"].iter().map(|to| post(&db, to)).collect();
    db.write(|tx| {
        let sql = "INSERT INTO messages (from_node, to_node, subject, body, kind, urgency, created_at)
                   VALUES ('root/a', 'root/b', 's', 'b', ?1, ?2, 0)";
        tx.raw().execute(sql, ["poem", "info"])?;
        tx.raw().execute(sql, ["report", "whenever"])?;
        Ok(())
    })
    .unwrap();
    let inbox = db.read(|conn| for_recipient(conn, "root/b", Delivery::Pending, 100)).unwrap();
    assert_eq!(inbox.messages.iter().map(|m| m.id).collect::<Vec<_>>(), [ids[0], ids[2]]);
    let reasons: Vec<_> = inbox.unreadable.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(reasons, ["unknown kind 'poem'", "unknown urgency 'whenever'"]);
    let all = db.read(|conn| in_state(conn, Delivery::Pending)).unwrap();
    assert_eq!(all.messages.iter().map(|m| m.id).collect::<Vec<_>>(), [ids[0], ids[2], ids[1]]);
    assert_eq!(db.read(|conn| count_for_recipient(conn, "root/b", Delivery::Pending)).unwrap(), 4);
    assert_eq!(db.read(|conn| newest(conn, 3)).unwrap().messages.len(), 1);

    assert_eq!(db.read(pending_to_terminal).unwrap().messages, []);
    db.write(|tx| settle::retire(tx, "root/c", "x", 0, NOW)).unwrap();
    let stranded = db.read(pending_to_terminal).unwrap();
    assert_eq!(stranded.messages.iter().map(|m| m.id).collect::<Vec<_>>(), [ids[1]]);

    // An unknown value of `delivered` belongs to no state and is named where the row is asked for.
    db.write(|tx| Ok(tx.raw().execute("UPDATE messages SET delivered = 9 WHERE id = ?1", [ids[0]])?)).unwrap();
    let error = db.read(|conn| get(conn, ids[0])).unwrap_err();
    assert_eq!(error.to_string(), format!("messages row {} is unreadable: unknown delivered value 9", ids[0]));
}
