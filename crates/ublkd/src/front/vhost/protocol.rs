//! The VMM's messages: what `vhost` has parsed, as changes of a [`Device`].
//!
//! An error ends the connection.

use std::fs::File;
use std::io;

use rustix::io::FdFlags;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    Error, GpuBackend, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures,
};

use super::config::{QUEUE_SIZE_MAX, QUEUES_MAX, REGIONS_MAX, features, protocol_features};
use super::device::Device;
use super::inflight::Inflight;
use super::memory::Ram;
use super::ring::{Addresses, Ring};

/// Where a VMM's addresses of a region begin; only post-copy migration asks.
type Base = u64;

fn failed(error: io::Error) -> Error {
    Error::ReqHandlerError(error)
}

/// A file that the VMM has passed, which must not be passed on to other programs.
fn own(file: File) -> Result<File> {
    rustix::io::fcntl_setfd(&file, FdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    Ok(file)
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::InvalidOperation(what))
}

impl Device {
    fn at(&mut self, index: u32) -> Result<usize> {
        let at = usize::try_from(index).ok().filter(|&at| at < self.rings.len());
        let at =
            at.ok_or_else(|| failed(io::Error::other(format!("there is no queue {index}"))))?;
        self.name(at);
        Ok(at)
    }

    /// A queue that is not served. What a VMM changes of one that is would be of no effect.
    fn stopped(&mut self, index: u32) -> Result<&mut Ring> {
        let at = self.at(index)?;
        if self.rings[at].is_running() {
            let told = format!("queue {index} is changed while it runs");
            return Err(failed(io::Error::other(told)));
        }
        Ok(&mut self.rings[at])
    }

    /// Ends what is under way in a queue, and stops it. Returns where it would go on.
    fn end_ring(&mut self, at: usize) -> Result<u16> {
        if !self.drain(at) {
            return Err(failed(io::Error::other("a queue can't be stopped in the usual way")));
        }
        Ok(self.stop_ring(at))
    }

    fn stop_all(&mut self) -> Result<()> {
        (0..self.rings.len()).try_for_each(|at| self.end_ring(at).map(drop))
    }
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.stop_all()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop_all()?;
        self.features = 0;
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(features())
    }

    fn set_features(&mut self, taken: u64) -> Result<()> {
        if taken & !features() != 0 {
            return Err(Error::FeatureMismatch);
        }
        self.features = taken;
        let protocol = vhost::vhost_user::VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        if taken & protocol == 0 {
            // Such a VMM does not enable queues.
            self.rings.iter_mut().for_each(|ring| ring.set_enabled(true));
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<Base>>> {
        let files = files.into_iter().map(own).collect::<Result<Vec<_>>>()?;
        let shared = regions.iter().copied().zip(files).collect();
        self.ram = Ram::share(shared).map_err(failed)?;
        self.find_rings();
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        self.stopped(index)?.set_size(size).map_err(failed)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let at = self.at(index)?;
        self.rings[at].set_addresses(Addresses { descriptors, available, used });
        self.find_rings();
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        // What is above is for packed queues, which are not offered.
        self.stopped(index)?.set_base(base as u16);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let at = self.at(index)?;
        let base = self.end_ring(at)?;
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let at = self.at(index.into())?;
        let Some(kick) = file else { return unsupported("queues are not polled") };
        let kick = own(kick)?;
        self.drop_kick(at);
        self.control.events().add(index.into(), &kick).map_err(failed)?;
        self.rings[at].set_kick(kick);
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let at = self.at(index.into())?;
        self.rings[at].set_call(file.map(own).transpose()?).map_err(failed)
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let at = self.at(index.into())?;
        self.rings[at].set_error(file.map(own).transpose()?).map_err(failed)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(protocol_features())
    }

    fn set_protocol_features(&mut self, taken: u64) -> Result<()> {
        if taken & !protocol_features().bits() != 0 {
            return Err(Error::FeatureMismatch);
        }
        self.protocol = VhostUserProtocolFeatures::from_bits_truncate(taken);
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES_MAX.into())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let at = self.at(index)?;
        self.rings[at].set_enabled(enable);
        Ok(())
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        let end = offset.checked_add(size).map(|end| end as usize);
        let space = self.show_space();
        let told = end.and_then(|end| space.get(offset as usize..end));
        told.map(<[u8]>::to_vec).ok_or(Error::InvalidParam)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        // Nothing that can be written is offered; a driver that writes all the same changes nothing.
        Ok(())
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        unsupported("this is a disk")
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        unsupported("there are no shared objects")
    }

    fn get_inflight_fd(&mut self, asked: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        if asked.num_queues > QUEUES_MAX || asked.queue_size > QUEUE_SIZE_MAX {
            return Err(Error::InvalidParam);
        }
        Inflight::make(asked.num_queues, asked.queue_size).map_err(failed)
    }

    fn set_inflight_fd(&mut self, told: &VhostUserInflight, file: File) -> Result<()> {
        if self.rings.iter().any(Ring::is_running) {
            let told = "the region of what is under way is exchanged while queues run";
            return Err(failed(io::Error::other(told)));
        }
        self.inflight = Some(Inflight::open(told, own(file)?).map_err(failed)?);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<Base>> {
        if self.ram.regions() >= REGIONS_MAX {
            return Err(Error::InvalidParam);
        }
        self.ram.add(region, own(file)?).map_err(failed)?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.ram.remove(region).map_err(failed)?;
        self.find_rings();
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        unsupported("the disk is not migrated")
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported("the disk is not migrated")
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported("there is no shared memory")
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        unsupported("the disk is not migrated")
    }
}
