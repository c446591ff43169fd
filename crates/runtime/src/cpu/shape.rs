//! The shape of a launch: its numbers of blocks and threads, and their indices.

/// The most threads of a block, on every device.
pub(crate) const MAX_THREADS: usize = 1024;

/// The shape of a block's launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
}

impl LaunchShape {
    /// The threads of one block.
    pub fn threads(&self) -> usize {
        self.block.iter().map(|&size| size as usize).product()
    }

    /// The blocks of the grid.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&size| u64::from(size)).product()
    }

    /// The index of block `linear` along x, y, z.
    pub(crate) fn block_index(&self, linear: u64) -> [u32; 3] {
        let [x, y] = [u64::from(self.grid[0]), u64::from(self.grid[1])];
        [(linear % x) as u32, (linear / x % y) as u32, (linear / (x * y)) as u32]
    }

    /// The warp of the thread at this index of a block.
    pub(crate) fn warp(&self, [x, y, z]: [u32; 3]) -> u32 {
        ((z * self.block[1] + y) * self.block[0] + x) / 32
    }

    /// The index of thread `linear` of a block along x, y, z.
    pub(crate) fn thread_index(&self, linear: usize) -> [u32; 3] {
        let [x, y] = [self.block[0] as usize, self.block[1] as usize];
        [(linear % x) as u32, (linear / x % y) as u32, (linear / (x * y)) as u32]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_indices_follow_x_then_y_then_z() {
        let shape = LaunchShape { grid: [2, 3, 4], block: [4, 2, 2] };
        assert_eq!(shape.block_index(0), [0, 0, 0]);
        assert_eq!(shape.block_index(1), [1, 0, 0]);
        assert_eq!(shape.block_index(2), [0, 1, 0]);
        assert_eq!(shape.block_index(23), [1, 2, 3]);
        assert_eq!(shape.thread_index(15), [3, 1, 1]);
    }
}
