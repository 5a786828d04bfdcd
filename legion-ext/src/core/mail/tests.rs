use proptest::prelude::*;

use super::*;

const CHANGES: [DeliveryChange; 5] = [
    DeliveryChange::Accept,
    DeliveryChange::Confirm,
    DeliveryChange::BounceTerminal,
    DeliveryChange::BounceIntercepted,
    DeliveryChange::Discard,
];

/// MAIL-11: every pair of state and change.
#[test]
fn only_the_changes_of_the_table_are_legal() {
    use Delivery::{Accepted, Bounced, Delivered, Obsolete, Pending};
    use DeliveryEvent as E;
    let legal = [
        (Pending, DeliveryChange::Accept, Accepted, None),
        (Pending, DeliveryChange::BounceTerminal, Bounced, Some(E::Bounced(BounceReason::RecipientTerminal))),
        (Pending, DeliveryChange::BounceIntercepted, Bounced, Some(E::Bounced(BounceReason::Intercepted))),
        (Pending, DeliveryChange::Discard, Obsolete, Some(E::Bounced(BounceReason::Obsolete))),
        (Pending, DeliveryChange::Confirm, Delivered, Some(E::Delivered)),
        (Accepted, DeliveryChange::Confirm, Delivered, Some(E::Delivered)),
        (Accepted, DeliveryChange::BounceTerminal, Bounced, Some(E::Bounced(BounceReason::RecipientTerminal))),
        (Accepted, DeliveryChange::Discard, Obsolete, Some(E::Bounced(BounceReason::Obsolete))),
    ];
    for from in Delivery::ALL {
        for change in CHANGES {
            let expected = legal.iter().find(|row| (row.0, row.1) == (from, change));
            match (next_delivery(from, change), expected) {
                (Ok(step), Some((_, _, to, event))) => assert_eq!((step.to, step.event), (*to, *event)),
                (Err(error), None) => assert_eq!(error, IllegalDelivery { from, change }),
                (got, expected) => panic!("{from} {change:?}: {got:?}, expected {expected:?}"),
            }
        }
    }
}

proptest! {
    /// A message ends at most once, and an end is never left.
    #[test]
    fn a_message_ends_once(changes in proptest::collection::vec(0..CHANGES.len(), 0..12)) {
        let mut state = Delivery::Pending;
        let mut events = 0;
        for change in changes.into_iter().map(|i| CHANGES[i]) {
            let ended = matches!(state, Delivery::Bounced | Delivery::Delivered | Delivery::Obsolete);
            match next_delivery(state, change) {
                Ok(step) => {
                    prop_assert!(!ended);
                    prop_assert!(step.to != state);
                    prop_assert_eq!(step.event.is_some(), step.to != Delivery::Accepted);
                    events += usize::from(step.event.is_some());
                    state = step.to;
                }
                Err(error) => prop_assert_eq!(error.from, state),
            }
        }
        prop_assert!(events <= 1);
    }

    /// MAIL-13, MAIL-16: a row that was just claimed is claimable again after the lease and never before.
    #[test]
    fn a_claim_protects_for_its_lease(stamp in 0_i64..1_000_000, later in 0_i64..200_000) {
        prop_assert_eq!(is_claimable(Some(stamp), stamp + later, 60_000), later >= 60_000);
        prop_assert_eq!(is_claimable(Some(stamp), stamp - later, 60_000), later > 60_000);
    }

    /// MAIL-7: a refused send fits once `retry_s` is over.
    #[test]
    fn retry_names_the_time_at_which_the_send_fits(
        mut ages in proptest::collection::vec(0_i64..300_000, 0..15), new in 1_usize..5, limit in 5_u32..15,
    ) {
        let now = 1_000_000;
        ages.sort_unstable_by(|a, b| b.cmp(a));
        let sent: Vec<i64> = ages.iter().map(|age| now - age).collect();
        if let Err(refusal) = check_rate(&sent, new, limit, now) {
            let later = now + refusal.retry_s * 1000;
            let left: Vec<i64> = sent.into_iter().filter(|at| *at > later - MAIL_RATE_WINDOW_MS).collect();
            prop_assert!(check_rate(&left, new, limit, later).is_ok());
        }
    }
}

/// MAIL-5, MAIL-7
#[test]
fn the_rate_counts_the_new_rows() {
    let now = 600_000;
    let sent: Vec<i64> = (0..9).map(|i| 400_000 + i).collect();
    assert_eq!(check_rate(&sent, 1, 10, now), Ok(()));
    let refusal = check_rate(&sent, 2, 10, now).unwrap_err();
    assert_eq!(refusal.to_string(), "mail rate limit reached (9/10 in 5 minutes); retry in 100s");
    assert_eq!(check_rate(&[], 11, 10, now).unwrap_err().retry_s, 0);
}

/// MAIL-8, MAIL-33
#[test]
fn platform_subjects_are_known_and_prefixed_once() {
    assert_eq!(platform_prefix("Stall notice: w silent"), Some("Stall notice:"));
    assert_eq!(platform_prefix("stall notice: w"), None);
    assert_eq!(redelivered_subject("hello"), "Redelivered: hello");
    assert_eq!(redelivered_subject("Redelivered: hello"), "Redelivered: hello");
}

/// MAIL-2, LED-9: an old 1 is ACCEPTED.
#[test]
fn stored_values_and_labels_are_read_back() {
    for state in Delivery::ALL {
        assert_eq!(Delivery::from_value(state.value()), Some(state));
    }
    assert_eq!(Delivery::from_value(1), Some(Delivery::Accepted));
    assert_eq!(Delivery::from_value(5), None);
    for kind in MailKind::ALL {
        assert_eq!(MailKind::parse(kind.as_str()), Some(kind));
        assert_eq!(kind.default_urgency() == Urgency::ActionNeeded, kind == MailKind::Question);
    }
    for urgency in Urgency::ALL {
        assert_eq!(Urgency::parse(urgency.as_str()), Some(urgency));
    }
}
