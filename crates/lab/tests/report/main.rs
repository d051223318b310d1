//! The report of results: what it shows, and how a browser shows it.

mod browser;
mod experiments;
mod picture;
mod plots;

use lab::judge::judge;
use lab::report::{ReportError, html};
use lab::results::{COLUMNS, Record, groups};
use lab::run::RunEnd;
use roxmltree::Node;

use experiments::{HOSTILE, all, alone, arrays, expecting, swept};
use picture::{commands, corners, has_class, parse, with_class};

/// Checks that a page is self-contained, and its layout.
fn check(page: &str) {
    let page = parse(page);
    for node in page.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object"].contains(&name), "{node:?}");
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on") && name != "src", "{name}=\"{value}\"");
            assert!(name != "href" || value.starts_with('#'), "{name}=\"{value}\"");
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}=\"{value}\"");
        }
        if name == "style" {
            let style = node.text().unwrap_or_default();
            assert!(!style.contains("url(") && !style.contains("@import"));
        }
        if name == "svg" {
            within_its_box(node);
        }
    }
}

fn within_its_box(svg: Node<'_, '_>) {
    let numbers = svg.attribute("viewBox").expect("a view box").split(' ');
    let numbers: Vec<f64> = numbers.map(|text| text.parse().expect("a number")).collect();
    let [_, _, width, height] = numbers[..] else { panic!("a view box of {numbers:?}") };
    for path in svg.descendants() {
        let Some(d) = path.attribute("d") else { continue };
        for (x, y) in corners(d) {
            let inside = (0.0..=width).contains(&x) && (0.0..=height).contains(&y);
            assert!(inside, "{x} {y} is not within {width} by {height}: {d}");
        }
    }
}

#[test]
fn a_page_stands_by_itself() {
    let page = html(&all(), &[]).expect("a report");
    check(&page);
    assert!(page.len() < 400_000, "{} bytes", page.len());
    // Namespaces are names, not references.
    let other = page.replace("http://www.w3.org/2000/svg", "");
    let other = other.replace("http://www.w3.org/1999/xhtml", "");
    assert!(!other.contains("http://") && !other.contains("https://"));
}

#[test]
fn expectations_are_told_with_what_became_of_them() {
    let experiment = expecting();
    let records = all();
    let judgements = judge(&experiment, &records).expect("they are of the experiment");
    let page = html(&records, &judgements).expect("a report");
    check(&page);
    let parsed = parse(&page);
    let rows = rows(parsed.root_element(), "judged");
    let verdicts: Vec<_> = rows.iter().map(|row| row.last().expect("a cell").as_str()).collect();
    assert_eq!(verdicts, ["MISS", "pass", "reported"]);
    assert!(rows[0][0].starts_with("<b>never</b>") && rows[0][5] == "≥ 1.00 s", "{:?}", rows[0]);
    assert_eq!((rows[1][4].as_str(), rows[1][5].as_str()), ("-50.0%", "≤ +0.0%"));
    assert_eq!((rows[2][4].as_str(), rows[2][5].as_str()), ("—", ""));
    let notes = with_class(parsed.root_element(), "note").into_iter();
    let notes: String = notes.flat_map(|n| n.descendants()).filter_map(|n| n.text()).collect();
    assert!(notes.contains("1 of 2 gates") && notes.contains("SSDs take <i>longer</i>"), "{notes}");
}

#[test]
fn hostile_texts_are_texts() {
    let mut records = arrays();
    assert_eq!(records[0].experiment, HOSTILE);
    for record in &mut records {
        record.variant = record.variant.take().map(|name| format!("{name}\0\u{1b}[1m\u{fffe}"));
    }
    let page = html(&records, &[]).expect("a report");
    check(&page);
    let page = parse(&page);
    let text = |name: &str| {
        let is_it = |node: &Node<'_, '_>| node.tag_name().name() == name;
        page.descendants().find(is_it).and_then(|node| node.text()).map(str::to_owned)
    };
    assert_eq!(text("title").as_deref(), Some(HOSTILE));
    assert_eq!(text("h1").as_deref(), Some(HOSTILE));
    let label = "five <i>\u{fffd}\u{fffd}[1m\u{fffd}";
    assert!(page.descendants().any(|node| node.is_text() && node.text() == Some(label)));
}

#[test]
fn figures_that_can_not_be_drawn_are_not() {
    let mut records = all();
    for (index, record) in records.iter_mut().enumerate() {
        let huge = [f64::MAX, f64::INFINITY, f64::NAN, -1.0, 0.0][index % 5];
        let figures = &mut record.figures;
        (figures.total_waf, figures.array_waf) = (huge, huge);
        figures.requests_per_second = huge;
        figures.reads.quantiles_us = [huge; 5];
        figures.seconds = huge;
        figures.timeline.interval_us = huge;
        figures.timeline.worst_us.fill(huge as f32);
        figures.timeline.gc.iter_mut().for_each(|gc| gc.fill(huge as f32));
        figures.timeline.mean_us.truncate(3);
    }
    check(&html(&records, &[]).expect("a report"));
    for record in &mut records {
        (record.figures.seconds, record.figures.timeline.interval_us) = (1.0, 1e3);
    }
    check(&html(&records, &[]).expect("a report"));
}

#[test]
fn tables_tell_every_figure_of_every_point() {
    let records = arrays();
    let page = html(&records, &[]).expect("a report");
    let page = parse(&page);
    let groups = groups(&records);
    let brief = rows(page.root_element(), "brief");
    assert_eq!(brief.len(), groups.len());
    let columns: Vec<_> = COLUMNS.iter().filter(|column| column.brief).collect();
    for (row, group) in brief.iter().zip(&groups) {
        assert_eq!(row[0], group.label);
        // Each figure has its mean and half the width of its interval.
        assert_eq!(row.len(), 1 + 2 * columns.len());
    }
    let full = rows(page.root_element(), "full");
    assert_eq!(full.len(), COLUMNS.len());
    for (row, column) in full.iter().zip(COLUMNS) {
        assert!(row[0].starts_with(column.name), "{row:?}");
        for (group, cells) in groups.iter().zip(row[1..].chunks(2)) {
            let estimate = group.estimate(column);
            near(&row[0], &cells[0], estimate.mean);
            near(&row[0], cells[1].trim_start_matches("± "), estimate.half_width);
        }
    }
}

/// The cells of a table's rows, without the head.
fn rows(page: Node<'_, '_>, class: &str) -> Vec<Vec<String>> {
    let table = page.descendants().find(|node| has_class(*node, class)).expect("a table");
    let is = |name: &'static str| move |node: &Node<'_, '_>| node.tag_name().name() == name;
    let text = |cell: Node<'_, '_>| {
        cell.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect()
    };
    let cells = |row: Node<'_, '_>| row.children().map(text).collect();
    let bodies = table.children().filter(is("tbody"));
    bodies.flat_map(|body| body.children()).filter(is("tr")).map(cells).collect()
}

/// A cell says a figure, as far as its digits go.
fn near(head: &str, cell: &str, figure: f64) {
    let unit = match head.rsplit(' ').next() {
        Some("ms") => 1e3,
        Some("MB/s") => 1e6,
        Some("GB/s") => 1e9,
        Some("%") => 0.01,
        Some("s") if head.contains("read") || head.contains("write") => 1e6,
        _ => 1.0,
    };
    let cell = cell.replace('\u{202f}', "");
    let decimals = cell.split_once('.').map_or(0, |(_, rest)| rest.len());
    let told: f64 = cell.parse().unwrap_or_else(|_| panic!("{head}: {cell} is no number"));
    let off = (told - figure / unit).abs();
    assert!(off <= 0.5001 * 10f64.powi(-(decimals as i32)), "{head}: {cell} for {figure}");
}

#[test]
fn only_what_is_significantly_better_is_marked() {
    let better = |waf: [f64; 4]| {
        let mut records = arrays();
        for (record, waf) in records.iter_mut().zip(waf) {
            record.figures.total_waf = waf;
        }
        let page = html(&records, &[]).expect("a report");
        let page = parse(&page);
        let table = page.descendants().find(|node| has_class(*node, "brief")).expect("a table");
        let marked = with_class(table, "best").into_iter();
        let marked = marked.filter_map(|node| node.text()).map(str::to_owned);
        marked.filter(|text| text.starts_with("7.7")).collect::<Vec<_>>()
    };
    assert_eq!(better([7.70, 7.72, 9.0, 9.02]), ["7.71"]);
    assert_eq!(better([9.0, 9.02, 7.70, 7.72]), ["7.71"]);
    // Within what chance explains.
    assert_eq!(better([7.70, 7.75, 7.73, 7.79]), Vec::<String>::new());
    assert_eq!(better([7.0, 8.4, 9.0, 12.0]), Vec::<String>::new());
    // Nor is a queue depth better than another: their workloads differ.
    let page = html(&swept(), &[]).expect("a report");
    assert!(with_class(parse(&page).root_element(), "best").is_empty());
}

#[test]
fn what_is_not_there_is_not_told() {
    let page = html(&alone(), &[]).expect("a report");
    let parsed = parse(&page);
    check(&page);
    let full = rows(parsed.root_element(), "full");
    for (row, column) in full.iter().zip(COLUMNS) {
        let absent = column.name.starts_with("write ") || column.name.ends_with(" WAF");
        assert_eq!(row[1] == "—", absent, "{row:?}");
    }
    let ids: Vec<_> = parsed.descendants().filter_map(|node| node.attribute("id")).collect();
    assert_eq!(ids, ["e1", "e1-cdf-reads", "e1-tail-reads", "e1-time-0"]);
    let nothing = html(&[], &[]).expect("a report");
    check(&nothing);
    assert!(nothing.contains("There are no results."));
}

#[test]
fn a_page_says_what_is_missing_or_was_cut_short() {
    let says = |records: &[Record]| {
        let page = html(records, &[]).expect("a report");
        let page = parse(&page);
        let warnings = with_class(page.root_element(), "warning").into_iter();
        let text = |node: Node<'_, '_>| {
            node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
        };
        warnings.map(text).collect::<Vec<String>>()
    };
    let mut records = arrays();
    assert!(says(&records).is_empty());
    records[2].figures.end = RunEnd::Overloaded;
    let told = says(&records);
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("zero could not keep up in 1 of 2 runs"), "{told:?}");
    assert_eq!(says(&records[..2]), ["Incomplete: 2 of 4 runs are there."]);
}

#[test]
fn a_histogram_that_is_none_is_refused() {
    let mut records = arrays();
    records[1].figures.writes.histogram = "none".to_owned();
    let error = html(&records, &[]).expect_err("no report");
    let ReportError::Latency { label, seed, requests, .. } = &error;
    assert_eq!((label.as_str(), *seed, *requests), ("five <i>", 2, "writes"));
    assert!(error.to_string().contains("run the experiment again"), "{error}");
}

#[test]
fn many_points_are_shown_in_part() {
    let records: Vec<Record> = (0..40)
        .map(|index| {
            let mut record = alone().remove(0);
            record.variant = Some(format!("variant {index}"));
            (record.shard, record.shards) = (index, 40);
            record
        })
        .collect();
    let page = html(&records, &[]).expect("a report");
    check(&page);
    let page = parse(&page);
    assert_eq!(rows(page.root_element(), "brief").len(), 40);
    let lines = |id: &str| with_class(picture::plot(&page, id), "line").len();
    assert_eq!(lines("e1-cdf-reads"), 16);
    let times = page.descendants().filter_map(|node| node.attribute("id"));
    assert_eq!(times.filter(|id| id.starts_with("e1-time-")).count(), 8);
}

#[test]
fn a_browser_shows_it_well() {
    let experiment = expecting();
    let judgements = judge(&experiment, &all()).expect("they are of the experiment");
    let page = html(&all(), &judgements).expect("a report");
    let plots = page.matches("<figure ").count();
    let rows = groups(&all()).len();
    for (width, dark) in [(1280, false), (1280, true), (390, false)] {
        let verdict = browser::judge(&page, width, dark);
        let scheme = if dark { "dark" } else { "light" };
        let expected = format!("{plots} plots, {rows} rows, texts, {width} px, {scheme}");
        assert_eq!(verdict.looked_at, expected);
        assert!(verdict.complaints.is_empty(), "{width} px, {scheme}: {:#?}", verdict.complaints);
    }
}

#[test]
fn the_judge_complains() {
    let page = html(&swept(), &[]).expect("a report");
    let spoiled = page.replace("font-size: 13px; }\n  th", "font-size: 40px; }\n  th");
    let spoiled = spoiled.replace("--ink: #1c2126", "--ink: #eee");
    let wide = "<div style=\"width: 2000px\">wide</div></main>";
    let spoiled = spoiled.replace("</main>", &format!("{wide}<script>nothing()</script>"));
    let complaints = browser::judge(&spoiled, 390, false).complaints.join("\n");
    for expected in ["overlap", "cut off", "contrast", "wide in 390", "CONSOLE"] {
        assert!(complaints.contains(expected), "no {expected} in:\n{complaints}");
    }
}

#[test]
fn paths_are_read_as_they_are_written() {
    assert_eq!(commands("M1 2h-3.5z"), [('M', vec![1.0, 2.0]), ('h', vec![-3.5]), ('z', vec![])]);
    assert_eq!(corners("M1 2h2v3h-2z"), [(1.0, 2.0), (3.0, 2.0), (3.0, 5.0), (1.0, 5.0)]);
}
