//! Clusters: neighbouring blocks of a grid with access to each other's shared memory.

/// The most blocks of a cluster, on every device; more only where a kernel allows it
/// (CUDA C++ Programming Guide, "Thread Block Clusters").
pub(crate) const PORTABLE_BLOCKS: u32 = 8;
/// The most blocks of a cluster, on a device of compute capability 9.0.
pub(crate) const MOST_BLOCKS: usize = 16;

/// How the blocks of a launch are grouped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clusters {
    /// Blocks of the grid along x, y, z.
    pub grid: [u32; 3],
    /// Blocks of a cluster along x, y, z; they divide those of the grid.
    pub sides: [u32; 3],
}

impl Clusters {
    /// The blocks of a cluster.
    pub(super) fn size(&self) -> u64 {
        self.sides.iter().map(|&side| u64::from(side)).product()
    }

    /// The number of clusters.
    pub(super) fn count(&self) -> u64 {
        self.grid.iter().map(|&blocks| u64::from(blocks)).product::<u64>() / self.size()
    }

    /// The index of the block of this rank in cluster `cluster`.
    pub(super) fn block_index(&self, cluster: u64, rank: u64) -> [u32; 3] {
        let counts = [0, 1, 2].map(|side| self.grid[side] / self.sides[side]);
        let cluster = unravel_box_index(cluster, counts);
        let block = unravel_box_index(rank, self.sides);
        [0, 1, 2].map(|side| cluster[side] * self.sides[side] + block[side])
    }

    /// The linear index of the block with this index.
    pub(super) fn linear(&self, [x, y, z]: [u32; 3]) -> u64 {
        let [width, height, _] = self.grid.map(u64::from);
        (u64::from(z) * height + u64::from(y)) * width + u64::from(x)
    }
}

/// The index along x, y, z of place `linear` in a box with these sides.
fn unravel_box_index(linear: u64, sides: [u32; 3]) -> [u32; 3] {
    let [x, y] = [u64::from(sides[0]), u64::from(sides[1])];
    [(linear % x) as u32, (linear / x % y) as u32, (linear / (x * y)) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_one_cluster_and_one_rank() {
        let clusters = Clusters { grid: [4, 6, 2], sides: [2, 3, 1] };
        assert_eq!((clusters.size(), clusters.count()), (6, 8));
        assert_eq!(clusters.block_index(0, 5), [1, 2, 0]);
        assert_eq!(clusters.block_index(1, 0), [2, 0, 0]);
        assert_eq!(clusters.block_index(7, 5), [3, 5, 1]);
        let all = (0..8).flat_map(|cluster| (0..6).map(move |rank| (cluster, rank)));
        let mut linear: Vec<u64> =
            all.map(|(c, rank)| clusters.linear(clusters.block_index(c, rank))).collect();
        linear.sort_unstable();
        assert_eq!(linear, (0..48).collect::<Vec<_>>());
    }
}
