//! Accesses across a border: host code in device memory, kernels in the host's, shuffles of lanes without a value.

use super::super::cells::Touch;
use super::super::regions::RegionMatch;
use super::findings::{At, CheckerFinding, CheckerFindingKind, CheckerSpot};
use super::{Checker, spot_of};
use crate::abi::CallSite;
use crate::cpu::traps;

/// The system maps nothing below this address by default (proc_sys_vm(5), `mmap_min_addr`).
const NULL_PAGES: usize = 1 << 16;

impl Checker {
    /// Host code may touch the memory at `address` too.
    pub(crate) fn managed(&mut self, address: usize, bytes: usize) {
        if let RegionMatch::Inside(region) = self.regions.find(address, bytes) {
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
            RegionMatch::Inside(region) if !region.managed => {
                (region.label.clone(), region.offset(address) as i64)
            }
            RegionMatch::Inside(_) | RegionMatch::Beside(..) => return false,
            RegionMatch::Elsewhere => {
                if let Some(slot) = self.regions.slot(address) {
                    self.state().learn(address, slot);
                }
                return false;
            }
        };
        let number = site.wrapping_sub(self.state().base) as u32;
        let spot = CheckerSpot { touch, site: At::Code(site), name: "host code", place: None };
        let finding =
            CheckerFinding::new(CheckerFindingKind::HostAccess, spot, label, offset, bytes);
        self.findings.note(finding, [number, 0]);
        true
    }

    /// `thread` of the running block reads a lane without a value by the shuffle at `site`.
    pub(crate) fn stray_lane(&mut self, thread: u16, lane: &str, site: CallSite) {
        self.settle();
        let Some(running) = self.running else { return };
        let spot = spot_of(&running, thread, Touch::Read, At::Line(site));
        let key = [site.line, site.file as usize as u32];
        self.findings.note(
            CheckerFinding::new(CheckerFindingKind::StrayLane, spot, lane.to_owned(), 0, 0),
            key,
        );
    }

    /// A kernel touches `address`, which is no multiple of `alignment`, from the code at `site`. Returns whether this finding
    /// may be the last: processors refuse some of these accesses.
    pub(crate) fn misaligned(
        &mut self,
        thread: u16,
        address: usize,
        alignment: usize,
        touch: Touch,
        site: usize,
    ) -> bool {
        self.settle();
        let Some(running) = self.running else { return false };
        let number = site.wrapping_sub(self.state().base) as u32;
        let spot = spot_of(&running, thread, touch, At::Code(site));
        let variable = self.find_variable(address, 1);
        let region = if self.shared.range().contains(&address) {
            &self.shared
        } else {
            match self.regions.find(address, 1) {
                RegionMatch::Inside(region) => &*region,
                RegionMatch::Beside(..) | RegionMatch::Elsewhere => return false,
            }
        };
        let (label, origin) = match variable {
            Some(index) => {
                let variable = &self.variables[index];
                (variable.label(), region.offset(variable.range.start))
            }
            None => (region.label.clone(), 0),
        };
        let offset = region.offset(address) as i64 - origin as i64;
        let finding =
            CheckerFinding::new(CheckerFindingKind::Misaligned, spot, label, offset, alignment);
        self.findings.note_first(finding, [number, 0])
    }

    /// A kernel touches memory outside of the device's. Returns whether this finding may be the last: it is the host's
    /// memory, or nobody's.
    pub(super) fn elsewhere(
        &mut self,
        address: usize,
        bytes: usize,
        spot: CheckerSpot,
        number: u32,
    ) -> bool {
        let mut home = String::new();
        if traps::describe_trap(address, &mut home) {
            self.findings.note(
                CheckerFinding::new(CheckerFindingKind::DeviceAccess, spot, home, 0, bytes),
                [number, 0],
            );
            return true;
        }
        if address < NULL_PAGES {
            let finding = CheckerFinding::new(
                CheckerFindingKind::OutOfBounds,
                spot,
                "the null pointer".to_owned(),
                address as i64,
                bytes,
            );
            return self.findings.note_first(finding, [number, 0]);
        }
        if let Some(slot) = self.regions.slot(address) {
            self.state().learn(address, slot);
        }
        false
    }
}
