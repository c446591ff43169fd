//! Tells misaligned vector accesses from other faults. The processor does not report the refused address, so the
//! instruction is decoded.
#![allow(unsafe_code)]

/// The misaligned address of the faulting instruction in `context`, and its required alignment; none for other
/// instructions.
///
/// # Safety
/// `context` must be the system's argument to the handler of the signal.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn misaligned_address(context: *const libc::c_void) -> Option<(usize, usize)> {
    // SAFETY: promised by the caller; the code is readable.
    unsafe {
        let registers = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let code = registers[libc::REG_RIP as usize] as *const u8;
        let bytes = std::slice::from_raw_parts(code, LONGEST);
        let numbers = REGISTERS.map(|register| registers[register as usize] as usize);
        let (address, alignment) = x86::operand(bytes, &numbers)?;
        (address % alignment != 0).then_some((address, alignment))
    }
}

/// The same on processors with loads and stores of vectors at any address.
///
/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn misaligned_address(_context: *const libc::c_void) -> Option<(usize, usize)> {
    None
}

/// The bytes of the longest instruction.
#[cfg(target_arch = "x86_64")]
const LONGEST: usize = 15;

/// By its number in instructions.
#[cfg(target_arch = "x86_64")]
const REGISTERS: [libc::c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Intel SDM volume 2, chapter 2: prefixes, ModR/M and SIB.
#[cfg(target_arch = "x86_64")]
mod x86 {
    /// The aligned moves of whole vectors: MOVAPS and MOVAPD (28, 29), MOVNTPS (2B), MOVDQA (6F, 7F), MOVNTDQ (E7).
    const MOVES: [u8; 6] = [0x28, 0x29, 0x2b, 0x6f, 0x7f, 0xe7];

    /// The address of the memory operand of the vector instruction at the begin of `bytes`, and its required alignment;
    /// none for an instruction without such an alignment, or an unknown one.
    pub(crate) fn operand(bytes: &[u8], registers: &[usize; 16]) -> Option<(usize, usize)> {
        let mut remaining_bytes = bytes.iter().copied();
        let opcode = opcode(&mut remaining_bytes)?;
        Some((address(&mut remaining_bytes, &opcode, registers)?, opcode.alignment))
    }

    /// The prefixes and the opcode of an instruction with a packed operand.
    struct Opcode {
        /// The upper bits of the register numbers: index and base.
        upper: (usize, usize),
        /// The alignment of its operand in memory, in bytes.
        alignment: usize,
    }

    /// Reads prefixes and opcode; none for an instruction without alignment.
    fn opcode(remaining_bytes: &mut impl Iterator<Item = u8>) -> Option<Opcode> {
        let mut byte = remaining_bytes.next()?;
        let mut packed = true;
        while matches!(byte, 0x66 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26) {
            packed &= !matches!(byte, 0xf2 | 0xf3);
            byte = remaining_bytes.next()?;
        }
        let mut x = 0;
        let mut b = 0;
        let mut alignment = 16;
        match byte {
            0xc5 => {
                let second = remaining_bytes.next()?;
                alignment = if second & 4 != 0 { 32 } else { 16 };
                packed = second & 2 == 0 && MOVES.contains(&remaining_bytes.next()?);
            }
            0xc4 => {
                let second = remaining_bytes.next()?;
                let third = remaining_bytes.next()?;
                (x, b) = (usize::from(!second >> 6 & 1), usize::from(!second >> 5 & 1));
                alignment = if third & 4 != 0 { 32 } else { 16 };
                packed =
                    second & 31 == 1 && third & 2 == 0 && MOVES.contains(&remaining_bytes.next()?);
            }
            _ => {
                if byte & 0xf0 == 0x40 {
                    (x, b) = (usize::from(byte >> 1 & 1), usize::from(byte & 1));
                    byte = remaining_bytes.next()?;
                }
                // Without VEX every packed operand of 16 bytes, except for unaligned moves.
                let opcode = (byte == 0x0f).then(|| remaining_bytes.next()).flatten()?;
                packed &=
                    !matches!(opcode, 0x10 | 0x11 | 0x12 | 0x13 | 0x16 | 0x17 | 0x6e | 0x7e | 0xd6);
            }
        }
        packed.then_some(Opcode { upper: (x, b), alignment })
    }

    /// Reads the operand in memory and computes its address; none if there is none.
    fn address(
        remaining_bytes: &mut impl Iterator<Item = u8>,
        opcode: &Opcode,
        registers: &[usize; 16],
    ) -> Option<usize> {
        let (x, b) = opcode.upper;
        let (mode, base) = {
            let modrm = remaining_bytes.next()?;
            (modrm >> 6, modrm & 7)
        };
        if mode == 3 || mode == 0 && base == 5 {
            return None;
        }
        let mut address = 0usize;
        let mut is_wide = mode == 2;
        if base == 4 {
            let sib = remaining_bytes.next()?;
            let scale = sib >> 6;
            let index = usize::from(sib >> 3 & 7) | x << 3;
            if index != 4 {
                address = registers[index] << scale;
            }
            match (sib & 7, mode) {
                (5, 0) => is_wide = true,
                (base, _) => address = address.wrapping_add(registers[usize::from(base) | b << 3]),
            }
        } else {
            address = registers[usize::from(base) | b << 3];
        }
        let displacement = if is_wide {
            let word = [
                remaining_bytes.next()?,
                remaining_bytes.next()?,
                remaining_bytes.next()?,
                remaining_bytes.next()?,
            ];
            i32::from_le_bytes(word) as isize
        } else if mode == 1 {
            isize::from(remaining_bytes.next()? as i8)
        } else {
            0
        };
        Some(address.wrapping_add_signed(displacement))
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::x86::operand;

    #[test]
    fn operands_of_vector_instructions_are_found_as_an_assembler_wrote_them() {
        let mut registers = [0usize; 16];
        for (number, register) in registers.iter_mut().enumerate() {
            *register = 0x1000 * (number + 1);
        }
        let find_operand = |bytes: &[u8]| operand(bytes, &registers);
        // movaps xmm0, [rsi]; movaps [rdi+4], xmm1; movaps xmm0, [rax+rcx*4+0x100]
        assert_eq!(find_operand(&[0x0f, 0x28, 0x06]), Some((0x7000, 16)));
        assert_eq!(find_operand(&[0x0f, 0x29, 0x4f, 0x04]), Some((0x8004, 16)));
        assert_eq!(find_operand(&[0x0f, 0x28, 0x84, 0x88, 0, 1, 0, 0]), Some((0x9100, 16)));
        // movdqa xmm0, [r8-16]; addps xmm0, [rsp+8]; movaps xmm9, [r13+0]
        assert_eq!(find_operand(&[0x66, 0x41, 0x0f, 0x6f, 0x40, 0xf0]), Some((0x8ff0, 16)));
        assert_eq!(find_operand(&[0x0f, 0x58, 0x44, 0x24, 0x08]), Some((0x5008, 16)));
        assert_eq!(find_operand(&[0x45, 0x0f, 0x28, 0x4d, 0x00]), Some((0xe000, 16)));
        // vmovaps ymm0, [rsi]; vmovaps xmm0, [r9+rax*1]
        assert_eq!(find_operand(&[0xc5, 0xfc, 0x28, 0x06]), Some((0x7000, 32)));
        assert_eq!(find_operand(&[0xc4, 0xc1, 0x78, 0x28, 0x04, 0x01]), Some((0xb000, 16)));
        // movups xmm0, [rsi]; movss xmm0, [rsi]; vmovups ymm0, [rsi]; mov eax, [rsi]; movaps of registers
        for instruction in [
            &[0x0f, 0x10, 0x06][..],
            &[0xf3, 0x0f, 0x10, 0x06],
            &[0xc5, 0xfc, 0x10, 0x06],
            &[0x8b, 0x06],
            &[0x0f, 0x28, 0xc1],
        ] {
            assert_eq!(find_operand(instruction), None, "{instruction:x?}");
        }
    }
}
