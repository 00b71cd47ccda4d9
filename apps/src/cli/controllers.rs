//! Names of controllers, and those that a server's clients may ask for.

use evenkeel::{Controllers, SharedFactory};

use super::failure::Failure;

/// Names of controllers with their parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Vec<String>);

/// Reads names that commas separate, as do the parameters of one: `vegas:alpha=2,beta=4,cubic`.
pub(crate) fn names(text: &str) -> Result<Names, String> {
    let mut names: Vec<String> = Vec::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match names.last_mut() {
            Some(before) if part.contains('=') && !part.contains(':') => {
                *before = format!("{before},{part}");
            }
            _ => names.push(part.to_owned()),
        }
    }
    match (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
        Some(twice) => Err(format!("{} stands there twice", names[twice])),
        None => Ok(Names(names)),
    }
}

/// The controllers with which a server sends.
pub(crate) struct Allowed(Vec<(String, SharedFactory)>);

impl Allowed {
    /// Allows a server's own one and `others`, all of the table `controllers`.
    pub(crate) fn new(
        own: &String,
        others: &Names,
        controllers: &Controllers,
    ) -> Result<Self, Failure> {
        let others = others.0.iter().filter(|name| *name != own);
        let named = [own].into_iter().chain(others).map(|name| {
            let factory = controllers.factory(name);
            let remedy = "write --controllers NAME,NAME:KEY=VALUE,...";
            factory
                .map(|factory| (name.clone(), factory))
                .map_err(|error| Failure::usage(error, remedy))
        });
        named.collect::<Result<_, _>>().map(Self)
    }

    /// Returns the server's own controller's name.
    pub(crate) fn own(&self) -> &str {
        &self.0[0].0
    }

    /// Returns a controller that a client asks for.
    pub(crate) fn find(&self, asked_for: &str) -> Result<SharedFactory, String> {
        let found = self.0.iter().find(|(name, _)| name == asked_for);
        found.map(|(_, factory)| factory.clone()).ok_or_else(|| {
            let names: Vec<_> = self.0.iter().map(|(name, _)| name.as_str()).collect();
            format!(
                "it sends only with {} (its --controllers)",
                names.join(" or ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commas_separate_names_and_the_parameters_of_one() {
        let read = |text| names(text).map(|names| names.0);
        assert_eq!(
            read("keel,cubic, bbr"),
            Ok(vec!["keel".into(), "cubic".into(), "bbr".into()])
        );
        assert_eq!(
            read("vegas:alpha=2,beta=4,cubic"),
            Ok(vec!["vegas:alpha=2,beta=4".into(), "cubic".into()])
        );
        assert_eq!(read(""), Ok(vec![]));
        assert!(
            read("keel,cubic,keel")
                .unwrap_err()
                .contains("keel stands there twice")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_names_or_an_error(text in "[a-c:=,. ]{0,30}") {
            if let Ok(Names(list)) = names(&text) {
                prop_assert!(list.iter().all(|name| !name.is_empty()));
                prop_assert_eq!(names(&list.join(",")), Ok(Names(list)));
            }
        }
    }
}
