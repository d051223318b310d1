//! Parses the command line, or reports its errors.

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use evenkeel_client::Refusal;

use crate::args::Cli;

/// The grammar. A negative number is a value, so that its error is about the value and not about an
/// unknown option.
pub(crate) fn grammar() -> Command {
    negative_numbers(Cli::command())
}

fn negative_numbers(command: Command) -> Command {
    let takes_value = |arg: &Arg| arg.get_action().takes_values();
    let allowed = |arg: Arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg };
    command.mut_args(allowed).mut_subcommands(negative_numbers)
}

/// The arguments of this process.
///
/// # Errors
/// If they are wrong, or ask for help or the version.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&grammar().try_get_matches()?)
}

/// The words of the command that was typed, such as `disk add`; as many as are valid.
pub(crate) fn command() -> &'static str {
    let all = grammar().ignore_errors(true);
    let Ok(matches) = all.try_get_matches() else { return "" };
    let mut words = Vec::new();
    let mut inner = &matches;
    while let Some((word, of_it)) = inner.subcommand() {
        words.push(word);
        inner = of_it;
    }
    // There is one for each process.
    words.join(" ").leak()
}

/// Whether `--json` is among the arguments.
pub(crate) fn wants_json() -> bool {
    let mut arguments = std::env::args_os().skip(1).take_while(|argument| argument != "--");
    arguments.any(|argument| argument == "--json")
}

/// The error of a command's arguments, without colours.
pub(crate) fn refusal(error: &clap::Error, command: &str) -> Refusal {
    let text = error.render().to_string();
    let text = if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // clap renders the whole help for this.
        "a command is missing"
    } else {
        text.strip_prefix("error: ").unwrap_or(&text)
    };
    let end = [text.find("\n\nUsage:"), text.find("\n\nFor more")].into_iter().flatten().min();
    let message = text[..end.unwrap_or(text.len())].trim().to_owned();
    let help = ["evenkeel", command, "--help"].into_iter().filter(|word| !word.is_empty());
    let hint = format!("`{}` tells what there is", help.collect::<Vec<_>>().join(" "));
    Refusal { code: "usage".to_owned(), message, hint: Some(hint) }
}
