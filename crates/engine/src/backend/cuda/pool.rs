//! Chooses one of several equal devices for each replay: the least busy one.
//!
//! Deals with numbers of devices only. With as many jobs as devices, each has one to itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Devices by their numbers, and how many replays run on each.
#[derive(Debug)]
pub(super) struct DevicePool {
    ordinals: Vec<usize>,
    running: Mutex<Vec<usize>>,
}

/// A device for one replay; given back when dropped.
#[derive(Debug)]
pub(super) struct DeviceLease<'p> {
    pool: &'p DevicePool,
    place: usize,
}

impl DevicePool {
    /// A pool of at least one device.
    pub(super) fn new(ordinals: Vec<usize>) -> DevicePool {
        let running = Mutex::new(vec![0; ordinals.len()]);
        DevicePool { ordinals, running }
    }

    /// How many devices there are.
    pub(super) fn len(&self) -> usize {
        self.ordinals.len()
    }

    /// How many devices run nothing.
    pub(super) fn idle(&self) -> usize {
        self.running().iter().filter(|&&running| running == 0).count()
    }

    /// The device with the fewest replays, of several the first.
    pub(super) fn lease(&self) -> DeviceLease<'_> {
        let mut running = self.running();
        let place = (0..running.len()).min_by_key(|&place| running[place]).unwrap_or(0);
        running[place] += 1;
        DeviceLease { pool: self, place }
    }

    fn running(&self) -> MutexGuard<'_, Vec<usize>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceLease<'_> {
    /// The device's number.
    pub(super) fn ordinal(&self) -> usize {
        self.pool.ordinals[self.place]
    }
}

impl Drop for DeviceLease<'_> {
    fn drop(&mut self) {
        self.pool.running()[self.place] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_replay_after_the_other_stays_on_the_first_device() {
        let pool = DevicePool::new(vec![3, 5]);
        let ordinals: Vec<usize> = (0..4).map(|_| pool.lease().ordinal()).collect();
        assert_eq!(ordinals, [3, 3, 3, 3]);
    }

    #[test]
    fn as_many_replays_as_devices_have_one_each() {
        let pool = DevicePool::new(vec![0, 1, 2]);
        let leases: Vec<DeviceLease> = (0..3).map(|_| pool.lease()).collect();
        let ordinals: Vec<usize> = leases.iter().map(DeviceLease::ordinal).collect();
        assert_eq!((ordinals, pool.idle()), (vec![0, 1, 2], 0));
        drop(leases);
        assert_eq!(pool.idle(), 3);
    }

    #[test]
    fn a_device_that_is_given_back_is_taken_next_and_more_replays_share_evenly() {
        let pool = DevicePool::new(vec![0, 1]);
        let mut leases: Vec<DeviceLease> = (0..4).map(|_| pool.lease()).collect();
        let shared: Vec<usize> = leases.iter().map(DeviceLease::ordinal).collect();
        assert_eq!(shared, [0, 1, 0, 1]);
        leases.remove(1);
        assert_eq!(pool.lease().ordinal(), 1);
    }

    #[test]
    fn jobs_on_several_threads_never_crowd_one_device() {
        let pool = DevicePool::new(vec![0, 1]);
        let most = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let _lease = pool.lease();
                        let crowd = *pool.running().iter().max().unwrap();
                        most.fetch_max(crowd, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }
}
