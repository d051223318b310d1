//! What a profile must be for a drive to be built from it.

use super::error::{PAGES_MAX, multiple, range};
use super::thresholds::thresholds;
use super::{Commands, DieChoice, PlaneChoice, Profile, ProfileError, Unit, Victim};

pub(super) fn check(p: &Profile) -> Result<(), ProfileError> {
    sizes(p)?;
    times(p)?;
    multiples(p)?;
    thresholds(p)
}

fn sizes(p: &Profile) -> Result<(), ProfileError> {
    let g = &p.geometry;
    for (key, value) in [
        ("geometry.channels", g.channels),
        ("geometry.chips", g.chips),
        ("geometry.dies", g.dies),
        ("geometry.planes", g.planes),
        ("geometry.pages", g.pages),
        ("nand.program_planes", p.nand.program_planes),
        ("nand.program_pages", p.nand.program_pages),
    ] {
        range(key, value.into(), 1.0, 65_536.0, "from 1 to 65536")?;
    }
    range("geometry.blocks", g.blocks.into(), 8.0, 1e9, "at least 8")?;
    range("geometry.page_bytes", g.page_bytes.into(), 512.0, 1e6, "from 512 to 1000000")?;
    range("ftl.mapping_bytes", p.mapping_bytes().into(), 512.0, 1e6, "from 512 to 1000000")?;
    range("ftl.streams", p.ftl.streams.into(), 1.0, 128.0, "from 1 to 128")?;
    range("ftl.spare", p.ftl.spare, 0.001, 0.9, "from 0.001 to 0.9")?;
    match p.gc.victim {
        Victim::DChoices(d) => {
            range("gc.victim.d-choices", d.into(), 1.0, 1e6, "from 1 to 1000000")?;
        }
        Victim::WindowedGreedy(w) => {
            range("gc.victim.windowed-greedy", w.into(), 1.0, 1e6, "from 1 to 1000000")?;
        }
        Victim::Greedy | Victim::Fifo => {}
    }
    if let Some(buffer) = p.buffer {
        range("buffer.kib", buffer.kib.into(), 1.0, 4_194_304.0, "from 1 to 4194304")?;
    }
    if let Unit::Burst(blocks) = p.gc.unit {
        range("gc.unit.burst", blocks.into(), 1.0, 1e9, "at least 1")?;
    }
    Ok(())
}

fn times(p: &Profile) -> Result<(), ProfileError> {
    let mut limits = vec![
        ("nand.read_us", p.nand.read_us),
        ("nand.program_us", p.nand.program_us),
        ("nand.erase_us", p.nand.erase_us),
    ];
    if let Some(suspend) = p.suspend {
        limits.push(("suspend.latency_us", suspend.latency_us));
    }
    if let Some(background) = p.gc.background {
        limits.push(("gc.background.idle_us", background.idle_us));
    }
    if let Some(link) = p.link {
        limits.push(("link.overhead_us", link.overhead_us));
        range("link.mb_per_s", link.mb_per_s, 1.0, 1e9, "from 1 to 1000000000")?;
    }
    if let Some(bus) = p.bus {
        range("bus.mb_per_s", bus.mb_per_s, 1.0, 1e9, "from 1 to 1000000000")?;
        range("bus.oob_bytes", bus.oob_bytes.into(), 0.0, 512.0, "from 0 to 512")?;
        limits.extend(bus.commands.iter().flat_map(Commands::times));
    }
    for (key, value) in limits {
        range(key, value, 0.0, 1e9, "from 0 to 1000000000")?;
    }
    if let Some(retry) = p.read_retry {
        range("read_retry.probability", retry.probability, 0.0, 1.0, "from 0 to 1")?;
        range("read_retry.limit", retry.limit.into(), 0.0, 1000.0, "from 0 to 1000")?;
    }
    Ok(())
}

fn multiples(p: &Profile) -> Result<(), ProfileError> {
    let (g, n) = (&p.geometry, &p.nand);
    let mapping = u64::from(p.mapping_bytes());
    multiple("geometry.page_bytes", g.page_bytes.into(), "ftl.mapping_bytes", mapping)?;
    multiple("geometry.planes", g.planes.into(), "nand.program_planes", n.program_planes.into())?;
    let summary = u32::from(p.ftl.summary);
    let data = u64::from(g.pages - summary.min(g.pages));
    range("pages with data in a block", data as f64, 1.0, 65_535.0, "from 1 to 65535")?;
    multiple("pages with data in a block", data, "nand.program_pages", n.program_pages.into())?;
    let in_row = u64::from(n.program_planes) * u64::from(g.page_bytes) / mapping;
    let in_block = u64::from(g.pages) * in_row;
    range("pages of mapping_bytes in a block", in_block as f64, 1.0, 65_535.0, "from 1 to 65535")?;
    let dies = u64::from(g.channels) * u64::from(g.chips) * u64::from(g.dies);
    let planes = dies.saturating_mul(u64::from(g.planes / n.program_planes));
    let pages = planes.saturating_mul(u64::from(g.blocks)).saturating_mul(in_block);
    if pages > PAGES_MAX {
        return Err(ProfileError::TooLarge { pages });
    }
    let in_program = u64::from(n.program_pages) * in_row;
    let buffered = p.buffer.map_or(0, |buffer| u64::from(buffer.kib) * 1024 / mapping);
    // A program of each stream may be gathered.
    let gathered = in_program * u64::from(p.ftl.streams);
    if (p.buffer.is_some() || in_program > 1) && buffered < gathered {
        let least = (gathered * mapping).div_ceil(1024);
        return Err(ProfileError::NeedsBuffer { pages: in_program, least });
    }
    for (key, is_static, places) in [
        ("ftl.die", p.ftl.die == DieChoice::Static, dies),
        ("ftl.plane", p.ftl.plane == PlaneChoice::Static, u64::from(g.planes / n.program_planes)),
    ] {
        if in_program > 1 && is_static && places > 1 {
            return Err(ProfileError::NoStaticPlace { key, pages: in_program });
        }
    }
    Ok(())
}
