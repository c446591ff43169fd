//! Where host and device meet, and lanes of a warp: host code that touches device memory, kernels that touch
//! the host's, shuffles that read nobody.

use super::super::cells::Touch;
use super::super::regions::Found;
use super::findings::{At, Finding, Kind, Spot};
use super::{Checker, spot_of};
use crate::runtime::abi::Site;
use crate::runtime::cpu::traps;

impl Checker {
    /// Host code may touch the memory at `address` too.
    pub(crate) fn managed(&mut self, address: usize, bytes: usize) {
        if let Found::Inside(region) = self.regions.find(address, bytes) {
            region.managed = true;
        }
        self.input(address, bytes);
    }

    /// Host code touches `bytes` at `address` from the code at `site`: whether it must not.
    pub(crate) fn host_access(
        &mut self,
        address: usize,
        bytes: usize,
        touch: Touch,
        site: usize,
    ) -> bool {
        self.settle();
        let (label, offset) = match self.regions.find(address, bytes) {
            Found::Inside(region) if !region.managed => {
                (region.label.clone(), region.offset(address) as i64)
            }
            Found::Inside(_) | Found::Beside(..) => return false,
            Found::Elsewhere => {
                if let Some(slot) = self.regions.slot(address) {
                    self.state().learn(address, slot);
                }
                return false;
            }
        };
        let number = site.wrapping_sub(self.state().base) as u32;
        let spot = Spot { touch, site: At::Code(site), name: "host code", place: None };
        let finding = Finding::new(Kind::HostAccess, spot, label, offset, bytes);
        self.findings.note(finding, [number, 0]);
        true
    }

    /// `thread` of the block that runs gets by the shuffle at `site` what no lane passes.
    pub(crate) fn stray_lane(&mut self, thread: u16, lane: &str, site: Site) {
        self.settle();
        let Some(running) = self.running else { return };
        let spot = spot_of(&running, thread, Touch::Read, At::Line(site));
        let key = [site.line, site.file as usize as u32];
        self.findings.note(Finding::new(Kind::StrayLane, spot, lane.to_owned(), 0, 0), key);
    }

    /// A kernel touches what is no memory of the device: whether it is the host's.
    pub(super) fn elsewhere(
        &mut self,
        address: usize,
        bytes: usize,
        spot: Spot,
        number: u32,
    ) -> bool {
        let mut home = String::new();
        if traps::describe(address, &mut home) {
            self.findings.note(Finding::new(Kind::DeviceAccess, spot, home, 0, bytes), [number, 0]);
            return true;
        }
        if let Some(slot) = self.regions.slot(address) {
            self.state().learn(address, slot);
        }
        false
    }
}
