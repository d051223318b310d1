//! `evenkeel demo`: the slowest requests with and without garbage collection, in virtual time; then an
//! array on modelled SSDs, through its whole life, every byte checked.

mod address;
mod compare;
mod gc;
mod load;
mod nbd;
mod spread;
mod summary;
mod tails;
mod target;
mod world;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use evenkeel_client::paths::shown;
use evenkeel_client::{ArrayReport, Health, Request};

use crate::args::DemoArgs;
use crate::output::Output;
use crate::progress;
use address::Address;
use load::{Contents, Figures, monotonic_nanos, random_seed};
use summary::Summary;
use tails::Tails;
use world::{Kept, World};

/// The member that fails.
const VICTIM: u8 = 2;

/// The default length of a load.
const SECONDS: u64 = 4;

/// Connections that are used at once.
const WORKERS: u64 = 8;

/// The exit status that a shell reports for an interrupted command.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(args: &DemoArgs, output: Output) -> Result<ExitCode> {
    match show(args, output) {
        Err(_) if world::is_interrupted() => Ok(ExitCode::from(INTERRUPTED)),
        shown => shown,
    }
}

fn show(args: &DemoArgs, output: Output) -> Result<ExitCode> {
    let say = |what: &str| {
        if !output.is_json() {
            println!("{what}");
        }
    };
    let &[policy] = &args.policy[..] else {
        return compare::compare(args, output, &say);
    };
    if let Some(dir) = &args.dir {
        // Told before anything takes time.
        std::fs::read_dir(dir).with_context(|| shown(dir).to_string())?;
    }
    let tails = Tails::play()?;
    say(&format!("{}\n", tails.text()?));
    let mut world = World::create(args, policy, &say)?;
    let load = Duration::from_secs(args.seconds.unwrap_or(SECONDS));
    let mut demo = Demo::new(&world, load, output)?;
    demo.live(&mut world, &say)?;
    let (mut json, mut text) = (demo.summary.json()?, demo.summary.text()?);
    json["tails"] = tails.json();
    if args.keep {
        let kept = world.keep();
        json["kept"] = kept.as_ref().map(Kept::json).into();
        text.extend(kept.iter().map(Kept::text));
    } else {
        world.end(&say)?;
    }
    output.result(&json, || format!("\n{text}"));
    say("\nEvery byte that was read was what had been written last.");
    Ok(ExitCode::SUCCESS)
}

struct Demo {
    output: Output,
    /// How long the array is under load in each phase.
    load: Duration,
    contents: Contents,
    summary: Summary,
}

impl Demo {
    fn new(world: &World, load: Duration, output: Output) -> Result<Self> {
        let contents = Contents::new(world.nbd().bytes()?, random_seed()?, WORKERS);
        Ok(Self { output, load, contents, summary: Summary::default() })
    }

    fn live(&mut self, world: &mut World, say: &dyn Fn(&str)) -> Result<()> {
        let nbd = world.nbd();
        say("Writing everything over NBD ...");
        let written = self.contents.write_all(&nbd)?;
        self.summary.sweep("written over NBD", written);
        self.check(&nbd, "healthy")?;
        self.load_for("healthy", &nbd, world)?;
        if let Some(fuse) = world.fuse() {
            say("Reading and writing the file (FUSE, O_DIRECT) ...");
            self.load_for("over FUSE", &fuse, world)?;
            self.check(&fuse, "healthy")?;
        }

        say(&format!("Failing member {VICTIM} ..."));
        world.call(&Request::DiskFail { disk: VICTIM.to_string() })?;
        expect(&world.status()?, Health::Degraded)?;
        self.load_for("degraded", &nbd, world)?;
        self.check(&nbd, "degraded")?;

        say("Replacing it, and going on meanwhile ...");
        self.rebuild(world)?;
        expect(&world.status()?, Health::Online)?;
        self.check(&nbd, "rebuilt")?;

        say("Comparing all parity with all data ...");
        world.call(&Request::ScrubStart { repair: false })?;
        let report = progress::wait(&mut world.client()?, self.output)?;
        match report.last_scrub {
            Some(scrub) if scrub.mismatches == 0 => {}
            Some(scrub) => bail!("parity does not match in {} rows", scrub.mismatches),
            None => bail!("the scrub came to no end"),
        }
        self.summary.gc.members(world.status()?.members);
        say("Stopping, examining, starting again ...");
        world.restart()?;
        self.check(&world.nbd(), "after a restart")
    }

    /// Checks that everything is as last written.
    fn check(&mut self, address: &Address, when: &str) -> Result<()> {
        let figures = self.contents.check_all(address)?;
        self.summary.sweep(format!("checked over {}, {when}", address.name()), figures);
        Ok(())
    }

    fn load_for(&mut self, name: &'static str, address: &Address, world: &World) -> Result<()> {
        let (stop, end) = (AtomicBool::new(false), Instant::now() + self.load);
        let since = monotonic_nanos();
        let figures = thread::scope(|scope| {
            let load = scope.spawn(|| {
                let figures = self.contents.mix(address, &stop);
                stop.store(true, Ordering::Relaxed);
                figures
            });
            while Instant::now() < end && !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
            load.join().map_err(|_| anyhow!("the load panicked"))?
        })?;
        self.phase(name, figures, since, world)
    }

    /// A phase that began at `since` has ended.
    fn phase(
        &mut self,
        name: &'static str,
        figures: Figures,
        since: u64,
        world: &World,
    ) -> Result<()> {
        self.summary.gc.add(&figures.spans, &world.gc_logs(since)?);
        self.summary.phase(name, figures);
        Ok(())
    }

    /// Replaces the member, with load until the rebuild is done.
    fn rebuild(&mut self, world: &World) -> Result<()> {
        let stop = AtomicBool::new(false);
        let (nbd, output) = (world.nbd(), self.output);
        let (start, since) = (Instant::now(), monotonic_nanos());
        let (load, rebuilt) = thread::scope(|scope| {
            let load = scope.spawn(|| self.contents.mix(&nbd, &stop));
            let rebuilt = world.replace(VICTIM).and_then(|()| {
                let report = progress::wait(&mut world.client()?, output)?;
                Ok((report, start.elapsed()))
            });
            stop.store(true, Ordering::Relaxed);
            (load.join(), rebuilt)
        });
        let (report, time) = rebuilt?;
        let load = load.map_err(|_| anyhow!("the load panicked"))??;
        self.phase("rebuilding", load, since, world)?;
        self.summary.rebuild(report.facts.member_bytes, time);
        Ok(())
    }
}

fn expect(report: &ArrayReport, health: Health) -> Result<()> {
    if report.health == health {
        Ok(())
    } else {
        bail!("the array should be {health:?} now, it is {:?}", report.health)
    }
}
