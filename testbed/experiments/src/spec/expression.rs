//! Arithmetic over metrics and axes, as experiments write it: `100*(goodput/goodput[version=A]-1)`.

use super::runs::Point;

/// Longest expression, in bytes.
const MAX_LENGTH: usize = 400;

/// Deepest nesting of parentheses and signs.
const MAX_DEPTH: usize = 40;

/// An expression that makes sense: `+ - * /`, parentheses, numbers and references.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    /// As it was written.
    pub(crate) text: String,
    /// From left to right.
    references: Vec<Reference>,
}

/// A metric or axis by name, at other values of axes than the expression if brackets say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The name, with a dot before a field of an axis: `protocol.rate`.
    pub(crate) name: String,
    /// Axes and their values, as written in brackets.
    pub(crate) selectors: Vec<(String, String)>,
}

impl Expression {
    /// Parses `text`. The error says what is wrong with it, in one line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("an expression has at most {MAX_LENGTH} bytes"));
        }
        let mut references = Vec::new();
        let mut noted = |reference: &Reference| {
            references.push(reference.clone());
            None
        };
        value(text, &mut noted)?;
        Ok(Self {
            text: text.to_owned(),
            references,
        })
    }

    /// All references in it, from left to right.
    pub(crate) fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Its value, with the references' values from `lookup`. `None` if one of them has no value or
    /// the result is not finite, as after a division by zero.
    pub(crate) fn evaluate(
        &self,
        lookup: &mut dyn FnMut(&Reference) -> Option<f64>,
    ) -> Option<f64> {
        let mut is_whole = true;
        // Behind what has no value nothing is looked up.
        let mut each = |reference: &Reference| {
            let value = is_whole.then(|| lookup(reference)).flatten();
            is_whole = value.is_some();
            value
        };
        let value = value(&self.text, &mut each).expect("it was parsed before");
        value.filter(|value| value.is_finite())
    }
}

impl Reference {
    /// The point that it is about: `from`, moved along the axes in its brackets.
    pub(crate) fn point(&self, from: &Point) -> Point {
        let selectors = self.selectors.iter();
        selectors.fold(from.clone(), |point, (axis, value)| point.with(axis, value))
    }
}

/// The value of `text`, or what is wrong with it.
fn value(text: &str, lookup: &mut dyn FnMut(&Reference) -> Option<f64>) -> Parsed {
    let at = 0;
    let mut parser = Parser { text, at, lookup };
    let value = parser.sum(0)?;
    match parser.peek() {
        None => Ok(value),
        Some(c) => Err(format!("{text:?} makes no sense from {c:?} on")),
    }
}

/// `None` if a reference in it has no value.
type Parsed = Result<Option<f64>, String>;

/// Computes while it reads.
struct Parser<'t> {
    text: &'t str,
    at: usize,
    lookup: &'t mut dyn FnMut(&Reference) -> Option<f64>,
}

impl<'t> Parser<'t> {
    fn sum(&mut self, depth: usize) -> Parsed {
        self.chain(depth, ['+', '-'], Self::product)
    }

    fn product(&mut self, depth: usize) -> Parsed {
        self.chain(depth, ['*', '/'], Self::factor)
    }

    /// Operands with operators of one precedence between them.
    fn chain(
        &mut self,
        depth: usize,
        signs: [char; 2],
        operand: fn(&mut Self, usize) -> Parsed,
    ) -> Parsed {
        let mut left = operand(self, depth)?;
        while let Some(sign) = self.peek().filter(|c| signs.contains(c)) {
            self.at += 1;
            let both = left.zip(operand(self, depth)?);
            left = both.map(|(left, right)| match sign {
                '+' => left + right,
                '-' => left - right,
                '*' => left * right,
                _ => left / right,
            });
        }
        Ok(left)
    }

    fn factor(&mut self, depth: usize) -> Parsed {
        if depth > MAX_DEPTH {
            return Err(format!("nothing is nested deeper than {MAX_DEPTH}"));
        }
        match self.peek() {
            Some('-') => {
                self.at += 1;
                Ok(self.factor(depth + 1)?.map(|value| -value))
            }
            Some('(') => {
                self.at += 1;
                let inner = self.sum(depth + 1)?;
                self.expect(')')?;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let reference = self.reference()?;
                Ok((self.lookup)(&reference))
            }
            found => {
                let what = found.map_or("ends".into(), |c| format!("has {c:?}"));
                let text = self.text;
                Err(format!("{text:?} {what} where a number or a name belongs"))
            }
        }
    }

    fn number(&mut self) -> Parsed {
        let mut before = ' ';
        let number = self.while_true(|c| {
            let before = std::mem::replace(&mut before, c);
            c.is_ascii_digit() || ".eE".contains(c) || ("+-".contains(c) && "eE".contains(before))
        });
        let value = number.parse();
        value
            .map(Some)
            .map_err(|_| format!("{number:?} is no number"))
    }

    fn reference(&mut self) -> Result<Reference, String> {
        let name = self.while_true(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let mut selectors = Vec::new();
        if self.peek() == Some('[') {
            self.at += 1;
            loop {
                let axis = self.while_true(|c| !"=,]".contains(c));
                self.expect('=')?;
                let value = self.while_true(|c| !"=,]".contains(c));
                let (axis, value) = (axis.trim(), value.trim());
                if axis.is_empty() || value.is_empty() {
                    return Err(format!("{name}[...] has an empty axis or value"));
                }
                selectors.push((axis.to_owned(), value.to_owned()));
                if self.peek() != Some(',') {
                    break;
                }
                self.at += 1;
            }
            self.expect(']')?;
        }
        Ok(Reference {
            name: name.to_owned(),
            selectors,
        })
    }

    fn while_true(&mut self, mut belongs: impl FnMut(char) -> bool) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Skips spaces and returns the next character without consuming it.
    fn peek(&mut self) -> Option<char> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest.chars().next()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        Err(format!("{:?} lacks a {wanted:?}", self.text))
    }
}

/// A number as overrides and labels show it: whole numbers without a fraction.
pub(crate) fn number_text(value: f64) -> String {
    // Products such as 0.1 * 3 carry a last bit that nobody wrote.
    let rounded = (value * 1e9).round() / 1e9;
    if rounded.is_finite() {
        rounded.to_string()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests;
