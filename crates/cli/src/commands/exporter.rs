//! `evenkeel exporter`: metrics of all arrays of this machine, on one port.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use evenkeel_client::{Client, running};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use ublkd::control::MetricsPages;
use ublkd::metrics::{MetricsServer, merge};

use super::ask;
use crate::args::ExporterArgs;
use crate::output::{Output, refusal_of};

/// How long an array may take to answer: less than a client waits for the page.
const ANSWER: Duration = Duration::from_secs(3);

pub(crate) fn exporter(args: &ExporterArgs, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut server = MetricsServer::bind(args.listen).await.with_context(|| {
            format!(
                "metrics can't be served on {}; choose another address by --listen",
                args.listen
            )
        })?;
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        server.serve(Arc::new(Gathered { run_dir: run_dir.to_path_buf(), output }));
        let uri = server.uri();
        output.result(&json!({ "uri": uri }), || format!("metrics of all arrays are at {uri}"));
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The pages of the arrays that run.
struct Gathered {
    run_dir: PathBuf,
    output: Output,
}

impl Gathered {
    fn gather(run_dir: &Path, output: Output) -> Option<Arc<str>> {
        let names = match running(run_dir) {
            Ok(names) => names,
            Err(error) => {
                output.warn(&error.to_string());
                return None;
            }
        };
        let told = ask::all(&names, run_dir, ANSWER, Client::metrics);
        let page = |told: Result<String, _>| {
            told.map_err(|error: evenkeel_client::ClientError| {
                output.warn(&refusal_of(&error.into()).message);
            })
            .ok()
        };
        let pages: Vec<_> = names.into_iter().zip(told.into_iter().map(page)).collect();
        Some(merge(&pages).into())
    }
}

impl MetricsPages for Gathered {
    fn page(&self) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send + '_>> {
        let (run_dir, output) = (self.run_dir.clone(), self.output);
        Box::pin(async move {
            let gathered = tokio::task::spawn_blocking(move || Self::gather(&run_dir, output));
            // It panics nowhere.
            gathered.await.ok().flatten()
        })
    }
}
