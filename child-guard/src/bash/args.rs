//! Reads the arguments of a command as options and operands, the way `getopt` does.
//!
//! It is told which options take a value; an option it is not told about counts as a flag.

/// One argument, or one letter of a cluster such as `-xzf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arg<'a> {
    /// `-o`, with its value when it takes one.
    Short(char, Option<&'a str>),
    /// `--name`, with its value when one is attached or it takes one.
    Long(&'a str, Option<&'a str>),
    /// Anything else, `-` and all that follows `--` included.
    Operand(&'a str),
}

/// Which options of a command take a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Takes {
    /// Letters whose value is the rest of the cluster or else the next argument.
    pub short: &'static str,
    /// Letters whose value can only be the rest of the cluster.
    pub attached: &'static str,
    /// Names, without dashes, whose value may be the next argument.
    pub long: &'static [&'static str],
}

/// The arguments, options after operands included.
pub(super) fn scan<'a>(args: &'a [String], takes: Takes) -> Args<'a> {
    Args { args, takes, next: 0, cluster: "", only_operands: false }
}

/// How many arguments stand before the first operand, a closing `--` included.
pub(super) fn leading_options(args: &[String], takes: Takes) -> usize {
    let mut scanned = scan(args, takes);
    while let Some(arg) = scanned.next() {
        if matches!(arg, Arg::Operand(_)) {
            return scanned.next - 1;
        }
    }
    args.len()
}

/// Iterator of [`scan`].
#[derive(Debug)]
pub(super) struct Args<'a> {
    args: &'a [String],
    takes: Takes,
    next: usize,
    cluster: &'a str,
    only_operands: bool,
}

impl<'a> Args<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let arg = self.args.get(self.next)?;
        self.next += 1;
        Some(arg)
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = Arg<'a>;

    fn next(&mut self) -> Option<Arg<'a>> {
        let mut letters = self.cluster.chars();
        if let Some(letter) = letters.next() {
            self.cluster = letters.as_str();
            let value = if self.takes.short.contains(letter) {
                let rest = std::mem::take(&mut self.cluster);
                if rest.is_empty() { self.take() } else { Some(rest) }
            } else if self.takes.attached.contains(letter) {
                Some(std::mem::take(&mut self.cluster))
            } else {
                None
            };
            return Some(Arg::Short(letter, value));
        }
        let arg = self.take()?;
        if self.only_operands {
            return Some(Arg::Operand(arg));
        }
        if arg == "--" {
            self.only_operands = true;
            return self.next();
        }
        if let Some(long) = arg.strip_prefix("--") {
            return Some(match long.split_once('=') {
                Some((name, value)) => Arg::Long(name, Some(value)),
                None if self.takes.long.contains(&long) => Arg::Long(long, self.take()),
                None => Arg::Long(long, None),
            });
        }
        match arg.strip_prefix('-') {
            Some(cluster) if !cluster.is_empty() => {
                self.cluster = cluster;
                self.next()
            }
            _ => Some(Arg::Operand(arg)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn clusters_values_and_operands() {
        let args = words("-xvfa.tar -C dir --list --exclude pat --color=auto in - -- -z");
        let takes = Takes { short: "fC", attached: "", long: &["exclude"] };
        let read: Vec<Arg<'_>> = scan(&args, takes).collect();
        assert_eq!(
            read,
            [
                Arg::Short('x', None),
                Arg::Short('v', None),
                Arg::Short('f', Some("a.tar")),
                Arg::Short('C', Some("dir")),
                Arg::Long("list", None),
                Arg::Long("exclude", Some("pat")),
                Arg::Long("color", Some("auto")),
                Arg::Operand("in"),
                Arg::Operand("-"),
                Arg::Operand("-z"),
            ]
        );
    }

    #[test]
    fn options_before_the_first_operand() {
        let takes = Takes { short: "u", attached: "", long: &["user"] };
        for (line, options) in
            [("-u me -n ls -l", 3), ("--user me ls", 2), ("-- ls", 1), ("-n", 1), ("ls", 0), ("-ume ls", 1)]
        {
            assert_eq!(leading_options(&words(line), takes), options, "{line}");
        }
    }
}
