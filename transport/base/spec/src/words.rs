//! Formats names and words for messages.

/// How many characters of a user's word an error message repeats.
const ECHOED: usize = 40;

/// Shortens and escapes a user's text for one line of a message.
pub fn echo(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(ECHOED)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(ECHOED).is_some() {
        short += "...";
    }
    short
}

/// Finds the name among `known` that the user may have meant: the nearest one, if only a few
/// letters differ.
///
/// ```
/// let known = ["vegas", "reno", "cubic"];
/// assert_eq!(evenkeel_spec::suggest("Vegsa", known), Some("vegas"));
/// assert_eq!(evenkeel_spec::suggest("warp", known), None);
/// ```
pub fn suggest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer text is no typing error, and the distance takes quadratic time.
    if name.chars().count() > ECHOED {
        return None;
    }
    let name = name.to_lowercase();
    known
        .into_iter()
        .map(|other| (strsim::damerau_levenshtein(&name, other), other))
        .filter(|(distance, other)| {
            let shorter = name.chars().count().min(other.chars().count());
            *distance <= 1 + shorter / 4 && *distance < shorter
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// Joins names with commas.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Returns the remedy for an unknown name: `did you mean vegas? use one of reno, vegas`.
pub(crate) fn choose<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let suggestion = suggest(name, known.clone())
        .map(|meant| format!("did you mean {meant}? "))
        .unwrap_or_default();
    format!("{suggestion}use one of {}", list(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_word_is_not_repeated_at_length() {
        assert_eq!(echo(&"x".repeat(40)), "x".repeat(40));
        assert_eq!(echo(&"x".repeat(4000)), format!("{}...", "x".repeat(40)));
    }

    #[test]
    fn a_slip_gets_a_suggestion_and_another_word_none() {
        let known = ["drop-tail", "red", "ro-vegas", "acp", "aqt"];
        for (name, meant) in [
            ("droptail", Some("drop-tail")),
            ("RED", Some("red")),
            ("rde", Some("red")),
            ("rovegas", Some("ro-vegas")),
            ("apc", Some("acp")),
            ("warp", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(suggest(name, known), meant, "{name}");
        }
        assert_eq!(suggest(&"red".repeat(100), known), None);
    }

    #[test]
    fn the_remedy_for_an_unknown_name_lists_all() {
        let known = ["red", "blue"];
        assert_eq!(
            choose("rde", known),
            "did you mean red? use one of red, blue"
        );
        assert_eq!(choose("green", known), "use one of red, blue");
    }
}
