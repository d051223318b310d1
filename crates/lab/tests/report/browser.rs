//! A page as a browser shows it.

use std::fs;
use std::process::{Command, Stdio};

/// The program, and the Debian package that has it.
const BROWSER: &str = "chromium-headless-shell";

/// Checks the layout of the page, and returns a line for each problem.
const JUDGE: &str = include_str!("judge.js");

/// The result of a check: what was checked, and the problems.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Plots, rows of the tables of figures, and texts in plots.
    pub(crate) looked_at: String,
    pub(crate) complaints: Vec<String>,
}

/// Opens a page in a window of that width.
pub(crate) fn judge(page: &str, width: u32, dark: bool) -> Verdict {
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let path = dir.path().join("report.html");
    let script = format!("<script>{JUDGE}</script></body>");
    fs::write(&path, page.replace("</body>", &script)).expect("the page is written");
    let search = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&search).any(|dir| dir.join(BROWSER).exists());
    assert!(installed, "`{BROWSER}` is missing: apt install {BROWSER}");
    let output = Command::new("timeout")
        .args(["120", BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
        .arg(format!("--window-size={width},1000"))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("file://{}", path.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser is started");
    let (dom, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the browser failed: {}\n{log}", output.status);
    let told = |from: &str| {
        let (_, rest) = dom.split_once(from).unwrap_or_else(|| panic!("no verdict:\n{log}"));
        rest.split_once("</pre>").expect("an end").0.to_owned()
    };
    let complaints = told("<pre id=\"complaints\">");
    let console = log.lines().filter(|line| line.contains("CONSOLE"));
    Verdict {
        looked_at: told("<pre id=\"looked-at\">"),
        complaints: complaints.lines().chain(console).map(str::to_owned).collect(),
    }
}
