//! Stacks for CUDA threads and the switch between them.
//!
//! A switch saves the callee-saved registers of the platform's C calling convention, swaps the
//! stack pointer, and is symmetric: a thread hands over to the next one directly, without a
//! detour through a scheduler. The rounding mode is not saved: it is one per replay.
#![allow(unsafe_code)]

use std::io;

use super::host_memory;

/// Usable bytes of one stack, apart from its guard.
pub(crate) const STACK_BYTES: usize = 128 << 10;

/// The least size of the untouchable guard below a stack. A function's variables rarely take as much, so no access
/// steps over it.
const GUARD_BYTES: usize = 64 << 10;

/// Equally aligned stacks compete for the same cache sets: their tops are shifted against each
/// other by this many bytes times the index, within a page. This visits every set in turn.
const TOP_SHIFT: usize = 320;
const SHIFT_PERIOD: usize = 4096;

/// A slab of stacks, each with a guard below it. A kernel in thread-loop form needs only one, so a stack
/// becomes accessible when it is first prepared.
pub(super) struct Stacks {
    base: *mut u8,
    slot: usize,
    count: usize,
    /// The stacks below this index can be touched.
    opened: usize,
}

// SAFETY: a slab is plain memory; whoever owns it decides which thread runs on it.
unsafe impl Send for Stacks {}

impl Stacks {
    /// Reserves `count` stacks; their pages are committed when they are first touched.
    pub(super) fn new(count: usize) -> io::Result<Stacks> {
        let slot = STACK_BYTES + guard_bytes();
        // SAFETY: an anonymous mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                slot * count,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Stacks { base: base.cast(), slot, count, opened: 0 })
    }

    /// The number of stacks.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The contents of stack `index`, of a thread left at `context`.
    ///
    /// # Safety
    /// `context` must have been saved by a switch away from the stack, and nobody may run on it meanwhile.
    pub(super) unsafe fn stack_contents(&mut self, index: usize, context: usize) -> &mut [u8] {
        // SAFETY: from the saved stack pointer to the top the stack is open.
        unsafe { std::slice::from_raw_parts_mut(context as *mut u8, self.top(index) - context) }
    }

    /// The address behind the first frame of stack `index`.
    fn top(&self, index: usize) -> usize {
        let end = self.guard(index) as usize + self.slot;
        (end - TOP_SHIFT * index % SHIFT_PERIOD) & !15
    }

    /// Whether `address` lies in the guard of one of the stacks.
    pub(crate) fn overflowed_at(&self, address: usize) -> bool {
        let base = self.base as usize;
        (base..base + self.slot * self.count).contains(&address)
            && (address - base) % self.slot < guard_bytes()
    }

    fn guard(&self, index: usize) -> *mut u8 {
        // SAFETY: `index` is below `count`, so the address lies inside the mapping.
        unsafe { self.base.add(index * self.slot) }
    }

    /// The stack pointer for a switch to stack `index`; it starts to run `entry`.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub(crate) fn prepare(
        &mut self,
        index: usize,
        entry: extern "C" fn() -> !,
    ) -> io::Result<usize> {
        assert!(index < self.count, "stack {index} of {}", self.count);
        while self.opened <= index {
            self.open(self.opened)?;
            self.opened += 1;
        }
        // SAFETY: the frame lies at the top of the stack; nobody runs on it yet.
        Ok(unsafe { arch::first_frame(self.top(index), entry) })
    }

    /// Makes all of stack `index` but its guard accessible.
    fn open(&self, index: usize) -> io::Result<()> {
        let guard = guard_bytes();
        host_memory::reserve_machine_memory(STACK_BYTES);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages lie inside the mapping of `new`.
        match unsafe { libc::mprotect(self.guard(index).add(guard).cast(), STACK_BYTES, access) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        host_memory::release_machine_memory(self.opened * STACK_BYTES);
        // SAFETY: unmaps the mapping of `new`; the owner no longer runs on it.
        unsafe { libc::munmap(self.base.cast(), self.slot * self.count) };
    }
}

/// The bytes of the guard below a stack. An odd number of pages: stacks whose distance is a large power
/// of two compete for the same cache sets.
fn guard_bytes() -> usize {
    GUARD_BYTES + page_bytes()
}

/// Bytes of a page of memory.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf reads a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Has the processor fetch the first reads of a thread with this context, if there is one.
#[inline(always)]
pub(super) fn prefetch_context(context: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        /// The lines of the waiting functions, and of the kernel behind them.
        const LINES: usize = 4;
        for line in 0..LINES {
            let address = context.wrapping_add(64 * line) as *const i8;
            // SAFETY: a hint; it faults at no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = context;
}

pub(super) use arch::switch;

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::asm;

    /// Saves the current context to `*save` and continues the one saved as `to`.
    ///
    /// It is inlined, and jumps where a function would return. The continuing thread usually waits at the same call, so
    /// the processor predicts its returns.
    ///
    /// # Safety
    /// `to` must come from `Stacks::prepare` or from a `save` that has not been continued since.
    #[inline(always)]
    pub(crate) unsafe fn switch(save: *mut usize, to: usize) {
        // SAFETY: every register with values of the compiler is saved here or named as
        // changed; the stack is the context's own again when it continues.
        unsafe {
            asm!(
                "lea rax, [rip + 2f]",
                "push rax",
                "push rbp",
                "push rbx",
                "mov [rdi], rsp",
                "mov rsp, rsi",
                "pop rbx",
                "pop rbp",
                "pop rax",
                "jmp rax",
                "2:",
                inout("rdi") save => _,
                inout("rsi") to => _,
                lateout("r12") _,
                lateout("r13") _,
                lateout("r14") _,
                lateout("r15") _,
                clobber_abi("C"),
            );
        }
    }

    /// Lays out the frame for `switch`; at `entry` the stack is aligned as after a call.
    pub(crate) unsafe fn first_frame(top: usize, entry: extern "C" fn() -> !) -> usize {
        let frame = (top - 32) as *mut usize;
        // SAFETY: the caller owns the stack below `top`.
        unsafe {
            frame.write(0);
            frame.add(1).write(0);
            frame.add(2).write(entry as usize);
            frame.add(3).write(0);
        }
        frame as usize
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use std::arch::naked_asm;

    /// Saves the current context to `*save` and continues the one saved as `to`.
    ///
    /// # Safety
    /// `to` must come from `Stacks::prepare` or from a `save` that has not been continued since.
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn switch(save: *mut usize, to: usize) {
        naked_asm!(
            "sub sp, sp, #160",
            "stp x19, x20, [sp]",
            "stp x21, x22, [sp, #16]",
            "stp x23, x24, [sp, #32]",
            "stp x25, x26, [sp, #48]",
            "stp x27, x28, [sp, #64]",
            "stp x29, x30, [sp, #80]",
            "stp d8, d9, [sp, #96]",
            "stp d10, d11, [sp, #112]",
            "stp d12, d13, [sp, #128]",
            "stp d14, d15, [sp, #144]",
            "mov x9, sp",
            "str x9, [x0]",
            "mov sp, x1",
            "ldp x19, x20, [sp]",
            "ldp x21, x22, [sp, #16]",
            "ldp x23, x24, [sp, #32]",
            "ldp x25, x26, [sp, #48]",
            "ldp x27, x28, [sp, #64]",
            "ldp x29, x30, [sp, #80]",
            "ldp d8, d9, [sp, #96]",
            "ldp d10, d11, [sp, #112]",
            "ldp d12, d13, [sp, #128]",
            "ldp d14, d15, [sp, #144]",
            "add sp, sp, #160",
            "ret",
        )
    }

    /// Lays out the frame for `switch`: all zero but the link register.
    pub(crate) unsafe fn first_frame(top: usize, entry: extern "C" fn() -> !) -> usize {
        let frame = (top - 160) as *mut usize;
        // SAFETY: the caller owns the stack below `top`.
        unsafe {
            for word in 0..20 {
                frame.add(word).write(0);
            }
            frame.add(11).write(entry as usize);
        }
        frame as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static MAIN: Cell<usize> = const { Cell::new(0) };
        static FIBER: Cell<usize> = const { Cell::new(0) };
        static STEPS: Cell<u32> = const { Cell::new(0) };
    }

    extern "C" fn count_steps() -> ! {
        loop {
            STEPS.set(STEPS.get() + 1);
            // SAFETY: MAIN was saved by the switch that continued this fiber.
            unsafe { switch(FIBER.with(Cell::as_ptr), MAIN.get()) };
        }
    }

    #[test]
    fn a_fiber_runs_from_switch_to_switch() {
        let mut stacks = Stacks::new(4).unwrap();
        FIBER.set(stacks.prepare(3, count_steps).unwrap());
        for steps in 1..=3 {
            // SAFETY: FIBER holds the prepared or the last saved context.
            unsafe { switch(MAIN.with(Cell::as_ptr), FIBER.get()) };
            assert_eq!(STEPS.get(), steps);
        }
    }

    #[test]
    fn the_pages_below_a_stack_are_its_guard() {
        let stacks = Stacks::new(2).unwrap();
        let base = stacks.base as usize;
        assert!(stacks.overflowed_at(base + 8));
        assert!(!stacks.overflowed_at(base + guard_bytes()));
        assert!(stacks.overflowed_at(base + stacks.slot));
        assert!(!stacks.overflowed_at(base - 1));
    }
}
