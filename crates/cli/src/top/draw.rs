//! Draws the screen. What colours tell is told by words or signs, too.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{LineGauge, Paragraph, Wrap};

use super::view::{Array, Member, Rates, Screen, Shown};
use crate::size::Size;

/// From few to many.
const SHADES: &[u8] = b".:-=+*#%@";

/// How many arrays are listed at most.
const LISTED: u16 = 6;

/// How wide the name of an array is.
const NAME: usize = 14;

/// Draws it all.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let arrays = screen.arrays.as_deref().unwrap_or_default();
    let listed = (arrays.len() as u16).clamp(1, LISTED);
    let [head, list, detail, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(listed + 1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let held = if screen.held { ", held" } else { "" };
    let every = humantime::format_duration(screen.interval);
    let title = format!("evenkeel top: {} arrays, every {every}{held}", arrays.len());
    frame.render_widget(Line::from(title).style(bold()), head);
    match &screen.arrays {
        None => frame.render_widget(Line::from("reading..."), list),
        Some(arrays) if arrays.is_empty() => {
            frame.render_widget(
                Line::from("no array is running; `evenkeel start` starts one"),
                list,
            );
        }
        Some(arrays) => list_arrays(frame, arrays, screen, list),
    }
    if let Some(Array { name, told: Ok(shown) }) = arrays.get(screen.selected) {
        one_array(frame, name, shown, screen.colour, detail);
    } else if let Some(Array { name, told: Err(why) }) = arrays.get(screen.selected) {
        let text = Paragraph::new(format!("{name}: {why}")).wrap(Wrap { trim: true });
        frame.render_widget(text, detail);
    }
    let told = "q quit  up/down array  space hold  +/- interval";
    frame
        .render_widget(Line::from(told).style(Style::new().add_modifier(Modifier::REVERSED)), keys);
}

fn list_arrays(frame: &mut Frame<'_>, arrays: &[Array], screen: &Screen, area: Rect) {
    let rows = usize::from(area.height.saturating_sub(1)).max(1);
    let first = screen.selected.saturating_sub(rows - 1);
    let heading = format!("  {:<NAME$} {:<9} {}", "array", "state", rates_heading());
    let mut lines = vec![Line::from(heading).style(bold())];
    for (index, array) in arrays.iter().enumerate().skip(first).take(rows) {
        let mark = if index == screen.selected { '>' } else { ' ' };
        let name = cut(&array.name, NAME);
        let line = match &array.told {
            Ok(shown) => Line::from(vec![
                Span::from(format!("{mark} {name:<NAME$} ")),
                Span::styled(
                    format!("{:<9} ", shown.state),
                    wellness(shown.is_well, screen.colour),
                ),
                Span::from(rates(&shown.io)),
            ]),
            Err(_) => Line::from(vec![
                Span::from(format!("{mark} {name:<NAME$} ")),
                Span::styled("no answer", wellness(false, screen.colour)),
            ]),
        };
        lines.push(line);
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn one_array(frame: &mut Frame<'_>, name: &str, shown: &Shown, colour: bool, area: Rect) {
    let members = shown.members.len() as u16 + 1;
    let pass = u16::from(shown.pass.is_some());
    let [gap, about, progress, table, problems] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(pass),
        Constraint::Length(members),
        Constraint::Min(0),
    ])
    .areas(area);
    let rule = "-".repeat(usize::from(gap.width));
    frame.render_widget(Line::from(rule), gap);
    let resting = match &shown.resting[..] {
        [] => String::new(),
        parts => format!("; rests: {}", parts.join(", ")),
    };
    let staged = shown.staged.map(|bytes| format!(", {} staged", Size(bytes))).unwrap_or_default();
    let about_lines = vec![
        Line::from(format!("{name}: {}, policy {}{resting}", shown.level, shown.policy)),
        Line::from(format!(
            "around busy members: {:.0} reads/s, {:.0} writes/s{staged}",
            shown.around.0, shown.around.1
        )),
    ];
    frame.render_widget(Paragraph::new(about_lines), about);
    if let Some(pass) = &shown.pass {
        let label = format!("{:3.0}% {}", 100.0 * pass.done, pass.text);
        let gauge = LineGauge::default()
            .ratio(pass.done)
            .label(label)
            .filled_symbol("#")
            .unfilled_symbol(".");
        frame.render_widget(gauge, progress);
    }
    list_members(frame, shown, colour, table);
    let told = shown.problems.iter().flat_map(|(what, action)| {
        [
            Line::from(vec![
                Span::styled("! ", wellness(false, colour)),
                Span::from(what.as_str()),
            ]),
            Line::from(format!("  -> {action}")),
        ]
    });
    let told = Paragraph::new(told.collect::<Vec<_>>()).wrap(Wrap { trim: false });
    frame.render_widget(told, problems);
}

fn list_members(frame: &mut Frame<'_>, shown: &Shown, colour: bool, area: Rect) {
    let scale = scale(&shown.bounds_ns);
    let fixed = 4 + 1 + 8 + 1 + 8 + 1 + scale.len() + 1 + 8 + 1 + 8 + 1 + 8;
    let wide = usize::from(area.width).saturating_sub(fixed + 1);
    let device = wide.min(40);
    let heading = format!(
        "{:<4} {:<8} {:<8} {scale} {:>8} {:>8} {:>8} {:<device$}",
        "disk", "state", "GC", "waits/s", "rd p99", "wr p99", "device"
    );
    let mut lines = vec![Line::from(heading).style(bold())];
    lines.extend(shown.members.iter().map(|member| line(member, device, colour)));
    frame.render_widget(Paragraph::new(lines), area);
}

fn line(member: &Member, device: usize, colour: bool) -> Line<'static> {
    let busy = matches!(&*member.mood, "collects" | "busy" | "hangs");
    let mut spans = vec![
        Span::from(format!("{:<4} ", member.disk)),
        Span::styled(format!("{:<8} ", member.state), wellness(member.is_well, colour)),
        Span::styled(format!("{:<8} ", member.mood), wellness(!busy, colour)),
    ];
    spans.extend(heat(&member.heat, colour));
    // The end of a path tells more than its beginning.
    let path: String = {
        let skip = member.device.chars().count().saturating_sub(device);
        member.device.chars().skip(skip).collect()
    };
    spans.push(Span::from(format!(
        " {:>8.0} {:>8} {:>8} {path:<device$}",
        member.waits,
        latency(member.io.read_p99),
        latency(member.io.write_p99),
    )));
    Line::from(spans)
}

/// A sign for each bucket: how large a share of the I/Os took so long.
fn heat(buckets: &[u64], colour: bool) -> Vec<Span<'static>> {
    let all: u64 = buckets.iter().sum();
    let of = |(at, &number): (usize, &u64)| {
        if number == 0 {
            return Span::from(" ");
        }
        // One in a thousand is seen, as it is what waits.
        let share = (number as f64 / all as f64).max(1e-3);
        let step = 1.0 + share.log10() / 3.0;
        let shade = (step * (SHADES.len() - 1) as f64).round() as usize;
        let sign = char::from(SHADES[shade.min(SHADES.len() - 1)]);
        // The later, the hotter.
        let hot = [Color::Green, Color::Yellow, Color::LightRed, Color::Red];
        let style = match colour {
            true => Style::new().fg(hot[(at * hot.len() / buckets.len()).min(hot.len() - 1)]),
            false => Style::new(),
        };
        Span::styled(sign.to_string(), style)
    };
    buckets.iter().enumerate().map(of).collect()
}

/// What the signs' places mean: bounds that are powers of ten, where there is room.
fn scale(bounds_ns: &[u64]) -> String {
    let (mut scale, places) = (String::new(), bounds_ns.len() + 1);
    for (at, &bound) in bounds_ns.iter().enumerate() {
        let is_power = 10u64.checked_pow(bound.max(1).ilog10()) == Some(bound);
        if !is_power || at < scale.len() {
            continue;
        }
        let label = match bound {
            0..1_000_000 => format!("{}u ", bound / 1000),
            1_000_000..1_000_000_000 => format!("{}m ", bound / 1_000_000),
            _ => format!("{}s ", bound / 1_000_000_000),
        };
        if at + label.trim_end().len() <= places {
            scale += &" ".repeat(at - scale.len());
            scale += &label;
        }
    }
    format!("{:<places$}", scale.trim_end())
}

fn rates_heading() -> String {
    let [reads, writes, read, written] = ["rd/s", "wr/s", "read/s", "written/s"];
    format!("{reads:>7} {writes:>7} {read:>9} {written:>9} {:>8} {:>7}", "rd p99", "wr p99")
}

fn rates(io: &Rates) -> String {
    let bytes = |bytes: u64| Size(bytes).to_string().replace(' ', "");
    format!(
        "{:>7.0} {:>7.0} {:>9} {:>9} {:>8} {:>7}",
        io.reads,
        io.writes,
        bytes(io.read_bytes),
        bytes(io.written_bytes),
        latency(io.read_p99),
        latency(io.write_p99)
    )
}

/// A latency in nanoseconds, in at most seven signs.
fn latency(nanos: Option<f64>) -> String {
    match nanos {
        None => "-".to_owned(),
        Some(nanos) if nanos < 999_500.0 => format!("{:.0}us", nanos / 1e3),
        Some(nanos) if nanos < 99_950_000.0 => format!("{:.1}ms", nanos / 1e6),
        Some(nanos) if nanos < 999_500_000.0 => format!("{:.0}ms", nanos / 1e6),
        Some(nanos) => format!("{:.1}s", nanos / 1e9),
    }
}

fn cut(name: &str, width: usize) -> String {
    name.chars().take(width).collect()
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Of what is well, or not.
fn wellness(is_well: bool, colour: bool) -> Style {
    match (is_well, colour) {
        (true, true) => Style::new().fg(Color::Green),
        (false, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        (true, false) => Style::new(),
        (false, false) => bold(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evenkeel_client::{ArrayReport, WhyReport};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::{Value, json};

    use super::*;

    /// Counters of reads and writes: so many each in the buckets of 100 us and 10 ms.
    fn io(fast: u64, slow: u64) -> Value {
        let mut buckets = vec![0; 20];
        (buckets[3], buckets[9]) = (fast, slow);
        let time = fast * 80_000 + slow * 8_000_000;
        let kind = |op: &str| json!({ "op": op, "bytes": 4096 * (fast + slow), "time_ns": time, "buckets": buckets });
        json!([kind("read"), kind("write")])
    }

    fn member(number: u8, state: &str, io: &Value) -> Value {
        json!({
            "member": number, "path": format!("/dev/disk/by-id/nvme{number}n1"), "uuid": "u", "state": state,
            "since": 0, "read_errors": 0, "write_errors": 0, "io": io,
        })
    }

    /// A report after so many seconds, with a member that has failed and a rebuild.
    fn report(seconds: u64) -> ArrayReport {
        let bounds: Vec<u64> =
            (0..19).map(|at| 10_000 * [1, 2, 5][at % 3] * 10u64.pow(at as u32 / 3)).collect();
        let requests = io(1000 * seconds, 10 * seconds);
        let members: Vec<Value> = (0..5)
            .map(|number| member(number, if number == 2 { "rebuilding" } else { "up" }, &requests))
            .collect();
        serde_json::from_value(json!({
            "name": "tank", "uuid": "u", "level": "raid5", "chunk_bytes": 65536, "member_count": 5,
            "capacity_bytes": 0, "member_bytes": 0, "data_offset_bytes": 0, "redundancy": 1,
            "consistency": "journal", "created": 0, "health": "degraded", "members": members, "spares": [],
            "problems": [{ "what": "member 2 is being rebuilt", "since": 0, "action": "wait" }],
            "pass": {
                "task": "rebuild", "member": 2, "done_bytes": 43, "total_bytes": 100, "paused": false,
                "stuck_at_stripe": null, "mismatches": 0, "located": 0, "elapsed_ms": 1000,
                "bytes_per_second": 104_857_600, "left_ms": 125_000,
            },
            "last_scrub": null, "dirty_regions": { "marked": 0, "total": 1 }, "zero_stripes": { "marked": 0, "total": 1 },
            "pace": { "min_bytes_per_second": 0, "max_bytes_per_second": null },
            "requests": { "completed": 0, "failed": 0 }, "policy": "evenkeel", "detours": { "reads": 0, "extra_blocks": 0 },
            "fronts": [], "events": [], "pid": 1,
            "io": { "since_ns": 0, "at_ns": seconds * 1_000_000_000, "bounds_ns": bounds, "requests": requests },
        }))
        .expect("a report")
    }

    fn why(seconds: u64) -> WhyReport {
        let member = |number: u8| {
            json!({ "member": number, "detours": 20 * seconds * u64::from(number == 1), "staged_writes": 0,
                    "from": "told", "busy": number == 1 })
        };
        let members: Vec<Value> = (0..5).map(member).collect();
        serde_json::from_value(json!({
            "policy": "evenkeel", "detours": { "reads": 20 * seconds, "extra_blocks": 0 },
            "staged": { "writes": 0, "blocks": 0 }, "members": members, "advice": [],
            "verdicts": [],
        }))
        .expect("what it says")
    }

    /// The screen after two readings, as text; and whether anything has a colour.
    fn screen(width: u16, height: u16, colour: bool) -> (String, bool) {
        let mut screen = Screen::new(Duration::from_secs(2), colour);
        for seconds in [10, 12] {
            screen.take(vec![("tank".to_owned(), Ok((report(seconds), Some(why(seconds)))))]);
        }
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &screen)).expect("it is drawn");
        let buffer = terminal.backend().buffer();
        let coloured =
            buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        let rows = buffer.content().chunks(width.into());
        let text = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
        (text.map(|row| row.trim_end().to_owned()).collect::<Vec<_>>().join("\n"), coloured)
    }

    #[test]
    fn it_fits_into_80_by_24_without_colours() {
        let (text, coloured) = screen(80, 24, false);
        assert!(!coloured);
        let lines: Vec<&str> = text.lines().collect();
        let row = |begin: &str| {
            *lines
                .iter()
                .find(|line| line.starts_with(begin))
                .unwrap_or_else(|| panic!("{begin}:\n{text}"))
        };
        assert_eq!(lines[0], "evenkeel top: 1 arrays, every 2s");
        // 1010 requests a second of 4 KiB, of which ten take almost 10 ms.
        let array = row("> tank");
        for cell in ["degraded", "1010", "3.9MiB", "100us"] {
            assert!(array.contains(cell), "{cell}:\n{text}");
        }
        assert!(row("tank: raid5, policy evenkeel").len() < 80);
        assert!(text.contains("around busy members: 20 reads/s, 0 writes/s"), "{text}");
        assert!(text.contains("43% rebuild of member 2 at 100 MiB/s, 2m 5s left"), "{text}");
        assert!(row("1    up       collects").contains("  20 "), "what waits:\n{text}");
        assert!(row("2    filling").contains("nvme2n1"), "{text}");
        // Most are fast, some are slow.
        let heat = &row("0    up       free")[23..43];
        assert_eq!(heat.trim_end(), "   @     =", "{text}");
        assert!(text.contains("! member 2 is being rebuilt\n  -> wait"), "{text}");
        assert_eq!(lines.len(), 24);
        assert!(lines[23].starts_with("q quit "), "{text}");
    }

    #[test]
    fn colours_are_for_those_who_want_them() {
        let (plain, _) = screen(120, 40, false);
        let (text, coloured) = screen(120, 40, true);
        assert!(coloured);
        assert_eq!(plain, text, "nothing is told by colours alone");
        assert!(text.contains("/dev/disk/by-id/nvme4n1"), "{text}");
    }

    #[test]
    fn no_size_is_too_small() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (79, 12), (300, 100)] {
            screen(width, height, true);
        }
    }

    #[test]
    fn what_does_not_answer_is_told() {
        let mut screen = Screen::new(Duration::from_secs(2), false);
        let shown = |screen: &Screen| {
            let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
            terminal.draw(|frame| draw(frame, screen)).expect("it is drawn");
            terminal.backend().to_string()
        };
        assert!(shown(&screen).contains("reading..."));
        screen.take(Vec::new());
        assert!(shown(&screen).contains("no array is running"));
        let source = std::io::ErrorKind::TimedOut.into();
        let error = evenkeel_client::ClientError::Broken { name: "tank".to_owned(), source };
        screen.take(vec![("tank".to_owned(), Err(error))]);
        let text = shown(&screen);
        assert!(text.contains("no answer") && text.contains("gave no answer: timed out"), "{text}");
    }
}
