//! Arithmetic over metrics and axes, as experiments write it: `100*(goodput/goodput[version=A]-1)`.

use super::runs::Point;

/// Longest expression, in bytes. It also bounds the depth of the tree.
const MAX_LENGTH: usize = 400;

/// Deepest nesting of parentheses and signs.
const MAX_DEPTH: usize = 40;

/// An expression, parsed. `+ - * /`, parentheses, numbers and references.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    /// As it was written.
    pub(crate) text: String,
    tree: Tree,
}

/// A metric or axis by name, at other values of axes than the expression if brackets say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The name, with a dot before a field of an axis: `protocol.rate`.
    pub(crate) name: String,
    /// Axes and their values, as written in brackets.
    pub(crate) selectors: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Tree {
    Number(f64),
    Reference(Reference),
    Negated(Box<Self>),
    Binary(Box<Self>, Operator, Box<Self>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Expression {
    /// Parses `text`. The error says what is wrong with it, in one line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("an expression has at most {MAX_LENGTH} bytes"));
        }
        let mut parser = Parser { text, at: 0 };
        let tree = parser.sum(0)?;
        match parser.peek() {
            None => Ok(Self {
                text: text.to_owned(),
                tree,
            }),
            Some(c) => Err(format!("{text:?} makes no sense from {c:?} on")),
        }
    }

    /// All references in it, from left to right.
    pub(crate) fn references(&self) -> Vec<&Reference> {
        let mut found = Vec::new();
        self.tree.references(&mut found);
        found
    }

    /// Its value, with the references' values from `lookup`. `None` if one of them has no value or
    /// the result is not finite, as after a division by zero.
    pub(crate) fn evaluate(
        &self,
        lookup: &mut dyn FnMut(&Reference) -> Option<f64>,
    ) -> Option<f64> {
        self.tree.evaluate(lookup).filter(|value| value.is_finite())
    }
}

impl Reference {
    /// The point that it is about: `from`, moved along the axes in its brackets.
    pub(crate) fn point(&self, from: &Point) -> Point {
        let selectors = self.selectors.iter();
        selectors.fold(from.clone(), |point, (axis, value)| point.with(axis, value))
    }
}

impl Tree {
    fn references<'t>(&'t self, found: &mut Vec<&'t Reference>) {
        match self {
            Self::Number(_) => {}
            Self::Reference(reference) => found.push(reference),
            Self::Negated(tree) => tree.references(found),
            Self::Binary(left, _, right) => {
                left.references(found);
                right.references(found);
            }
        }
    }

    fn evaluate(&self, lookup: &mut dyn FnMut(&Reference) -> Option<f64>) -> Option<f64> {
        Some(match self {
            Self::Number(number) => *number,
            Self::Reference(reference) => lookup(reference)?,
            Self::Negated(tree) => -tree.evaluate(lookup)?,
            Self::Binary(left, operator, right) => {
                let (left, right) = (left.evaluate(lookup)?, right.evaluate(lookup)?);
                match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                }
            }
        })
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn sum(&mut self, depth: usize) -> Result<Tree, String> {
        let operators = [('+', Operator::Add), ('-', Operator::Subtract)];
        self.chain(depth, operators, Self::product)
    }

    fn product(&mut self, depth: usize) -> Result<Tree, String> {
        let operators = [('*', Operator::Multiply), ('/', Operator::Divide)];
        self.chain(depth, operators, Self::factor)
    }

    /// Operands with operators of one precedence between them.
    fn chain(
        &mut self,
        depth: usize,
        operators: [(char, Operator); 2],
        operand: fn(&mut Self, usize) -> Result<Tree, String>,
    ) -> Result<Tree, String> {
        let mut left = operand(self, depth)?;
        loop {
            let next = self.peek();
            let Some((_, operator)) = operators.iter().find(|(sign, _)| next == Some(*sign)) else {
                return Ok(left);
            };
            self.at += 1;
            left = Tree::Binary(left.into(), *operator, operand(self, depth)?.into());
        }
    }

    fn factor(&mut self, depth: usize) -> Result<Tree, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nothing is nested deeper than {MAX_DEPTH}"));
        }
        match self.peek() {
            Some('-') => {
                self.at += 1;
                Ok(Tree::Negated(self.factor(depth + 1)?.into()))
            }
            Some('(') => {
                self.at += 1;
                let inner = self.sum(depth + 1)?;
                self.expect(')')?;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => self.number(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.reference().map(Tree::Reference),
            found => {
                let what = found.map_or("ends".into(), |c| format!("has {c:?}"));
                let text = self.text;
                Err(format!("{text:?} {what} where a number or a name belongs"))
            }
        }
    }

    fn number(&mut self) -> Result<Tree, String> {
        let rest = &self.text[self.at..];
        let mut end = 0;
        let bytes = rest.as_bytes();
        while end < bytes.len() {
            let exponent_sign = (bytes[end] == b'-' || bytes[end] == b'+')
                && end > 0
                && bytes[end - 1].eq_ignore_ascii_case(&b'e');
            let digit = bytes[end].is_ascii_digit() || b".eE".contains(&bytes[end]);
            if !digit && !exponent_sign {
                break;
            }
            end += 1;
        }
        let number = rest[..end]
            .parse()
            .map_err(|_| format!("{:?} is no number", &rest[..end]))?;
        self.at += end;
        Ok(Tree::Number(number))
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

    fn while_true(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
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
