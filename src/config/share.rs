//! A line `Share=QOS …`: read by [`crate::shares::record`], its errors put as those of other lines.

use super::Problem;
use crate::shares::Share;
use crate::shares::record::{self, ShareError};

pub(super) use crate::shares::record::KEY;

pub(super) fn parse(number: usize, line: &str) -> Result<Share, Problem> {
    record::parse(number, line).map_err(|error| match error {
        ShareError::NoValue(word) => Problem::NoValue(word),
        ShareError::UnknownKey(name) => Problem::UnknownKey(name, record::names()),
        ShareError::BadValue(key, value, allowed) => Problem::BadValue { key, value, allowed },
        ShareError::Twice(key) => Problem::Twice { key, first: None },
        ShareError::SaidTwice(what) => Problem::SaidTwice(what),
        ShareError::UsersWithoutAccount => Problem::Against { setting: "Users", needs: "one Account" },
    })
}
