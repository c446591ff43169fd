//! CUDA's SIMD and integer intrinsics, and its functions that a C library lacks: `tests/engine/public/{simd,special}`.

use super::public::{Public, Tensor, numbers, on_a_gpu};

/// A pseudo-random word, as `next_word` of `simd.cu` has it.
fn next_word(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    let mut word = *state;
    for shift in (0..32).step_by(8) {
        let is_odd = *state >> shift & 1 == 1;
        let byte = match *state >> shift & 12 {
            0 => Some(if is_odd { 128 } else { 127 }),
            4 => Some(if is_odd { 255 } else { 0 }),
            _ => None,
        };
        if let Some(byte) = byte {
            word = word & !(255 << shift) | byte << shift;
        }
    }
    word
}

/// The parts of a word, with or without a sign, from the lowest one on.
fn split_word(word: u32, bits: u32, is_signed: bool) -> Vec<i64> {
    let parts = (0..32 / bits).map(|part| {
        let part = i64::from(word) >> (part * bits) & ((1 << bits) - 1);
        if is_signed && part >> (bits - 1) == 1 { part - (1 << bits) } else { part }
    });
    parts.collect()
}

fn join_parts(parts: impl IntoIterator<Item = i64>, bits: u32) -> u32 {
    let mask = (1i64 << bits) - 1;
    let placed = parts.into_iter().enumerate();
    placed.fold(0, |word, (place, part)| {
        word | (((part & mask) as u64) << (place as u32 * bits)) as u32
    })
}

/// `result` of each part of `words`.
fn map_parts(words: &[u32], bits: u32, is_signed: bool, result: impl Fn(&[i64]) -> i64) -> u32 {
    let split: Vec<Vec<i64>> =
        words.iter().map(|&word| split_word(word, bits, is_signed)).collect();
    let parts = (0..split[0].len())
        .map(|place| result(&split.iter().map(|parts| parts[place]).collect::<Vec<i64>>()));
    join_parts(parts, bits)
}

/// `x` as a number of so many bits that wraps.
fn wrap(x: i64, bits: u32, is_signed: bool) -> i64 {
    split_word((x & ((1 << bits) - 1)) as u32, bits, is_signed)[0]
}

fn saturate(x: i64, bits: u32, is_signed: bool) -> i64 {
    let lowest = if is_signed { -(1 << (bits - 1)) } else { 0 };
    x.clamp(lowest, lowest + (1 << bits) - 1)
}

/// The rows of `OF_WIDTH`.
fn list_rows_of_width(bits: u32, a: u32, b: u32) -> Vec<u32> {
    type Operation = (bool, fn(i64, i64, u32) -> i64);
    let all_bits = |is_set: bool| if is_set { -1 } else { 0 };
    let operations: [Operation; 17] = [
        (false, |a, b, _| a + b),
        (false, |a, b, _| a - b),
        (true, |a, b, bits| saturate(a + b, bits, true)),
        (false, |a, b, bits| saturate(a + b, bits, false)),
        (true, |a, b, bits| saturate(a - b, bits, true)),
        (false, |a, b, bits| saturate(a - b, bits, false)),
        (false, |a, b, _| (a + b + 1) >> 1),
        (true, |a, b, _| (a + b + i64::from(a + b >= 0)) >> 1),
        (false, |a, b, _| (a + b) >> 1),
        (false, |a, b, _| -i64::from(a == b)),
        (false, |a, b, _| -i64::from(a != b)),
        (false, |a, b, _| i64::from(a == b)),
        (false, |a, b, _| i64::from(a != b)),
        (true, |a, _, _| a.abs()),
        (true, |a, _, bits| saturate(a.abs(), bits, true)),
        (true, |a, _, _| -a),
        (true, |a, _, bits| saturate(-a, bits, true)),
    ];
    let mut rows: Vec<u32> = operations
        .iter()
        .map(|(is_signed, result)| {
            map_parts(&[a, b], bits, *is_signed, |parts| result(parts[0], parts[1], bits))
        })
        .collect();
    for is_signed in [true, false] {
        let each = |result: &dyn Fn(i64, i64) -> i64| {
            map_parts(&[a, b], bits, is_signed, |parts| result(parts[0], parts[1]))
        };
        rows.push(each(&|a, b| a.max(b)));
        rows.push(each(&|a, b| a.min(b)));
        rows.push(each(&|a, b| (a - b).abs()));
        rows.push(each(&|a, b| all_bits(a > b)));
        rows.push(each(&|a, b| all_bits(a >= b)));
        rows.push(each(&|a, b| all_bits(a < b)));
        rows.push(each(&|a, b| all_bits(a <= b)));
        rows.push(each(&|a, b| i64::from(a > b)));
        rows.push(each(&|a, b| i64::from(a >= b)));
        rows.push(each(&|a, b| i64::from(a < b)));
        rows.push(each(&|a, b| i64::from(a <= b)));
        let [a_parts, b_parts] = [a, b].map(|word| split_word(word, bits, is_signed));
        let differences = a_parts.iter().zip(&b_parts).map(|(a, b)| (a - b).abs());
        rows.push(differences.sum::<i64>() as u32);
    }
    rows
}

/// The rows of `CHOICE`; `pick` is the larger or the smaller one.
fn list_rows_of_choice(pick: fn(i64, i64) -> i64, [a, b, c]: [u32; 3]) -> Vec<u32> {
    let chosen = |bits: u32, is_signed: bool, result: &dyn Fn(i64, i64, i64) -> i64| {
        map_parts(&[a, b, c], bits, is_signed, |parts| result(parts[0], parts[1], parts[2]))
    };
    let sum = |bits: u32, is_signed: bool| {
        chosen(bits, is_signed, &|a, b, c| pick(wrap(a + b, bits, is_signed), c))
    };
    let three =
        |bits: u32, is_signed: bool| chosen(bits, is_signed, &|a, b, c| pick(pick(a, b), c));
    let relu = |word: u32, bits: u32| map_parts(&[word], bits, true, |parts| parts[0].max(0));
    let two = |bits: u32, is_signed: bool| chosen(bits, is_signed, &|a, b, _| pick(a, b));
    // From the highest part on.
    let is_first = |bits: u32, is_signed: bool| {
        let [a_parts, b_parts] = [a, b].map(|word| split_word(word, bits, is_signed));
        let firsts = a_parts.iter().zip(&b_parts).rev().map(|(&a, &b)| u32::from(pick(a, b) == a));
        firsts.fold(0, |all, first| 2 * all + first)
    };
    vec![
        sum(32, true),
        sum(32, false),
        relu(sum(32, true), 32),
        sum(16, true),
        sum(16, false),
        relu(sum(16, true), 16),
        three(32, true),
        three(32, false),
        relu(three(32, true), 32),
        three(16, true),
        three(16, false),
        relu(three(16, true), 16),
        relu(two(32, true), 32),
        relu(two(16, true), 16),
        two(32, true),
        is_first(32, true),
        two(32, false),
        is_first(32, false),
        two(16, true),
        is_first(16, true),
        two(16, false),
        is_first(16, false),
    ]
}

/// The rows behind those of widths and choices.
fn list_other_rows([a, b, c]: [u32; 3]) -> Vec<u32> {
    let dot = |from: usize, bits: u32, is_signed: bool| {
        let factors = split_word(b, 8, is_signed);
        let products = split_word(a, bits, is_signed).into_iter().zip(&factors[from..]);
        (products.map(|(a, b)| a * b).sum::<i64>() + i64::from(c)) as u32
    };
    let mut rows = Vec::new();
    for (from, bits) in [(0, 16), (2, 16), (0, 8)] {
        rows.push(dot(from, bits, true));
        rows.push(dot(from, bits, false));
    }
    let base = b & 31;
    let offset = (c % 9) as i32 - 4;
    let set: Vec<u32> = (0..32).filter(|place| a >> place & 1 == 1).collect();
    let found = match offset {
        0 => set.contains(&base).then_some(base),
        1.. => set.iter().filter(|&&place| place >= base).nth(offset as usize - 1).copied(),
        _ => set.iter().rev().filter(|&&place| place <= base).nth(-offset as usize - 1).copied(),
    };
    rows.push(found.unwrap_or(u32::MAX));
    rows
}

#[test]
fn words_are_taken_apart_as_the_math_api_says() {
    const COUNT: usize = 96;
    let rows: Vec<Vec<u32>> = (0..COUNT)
        .map(|index| {
            let mut state = 2_463_534_242u32.wrapping_add(index as u32 * 977);
            let [a, b, c] = [(); 3].map(|()| next_word(&mut state));
            [
                list_rows_of_width(16, a, b),
                list_rows_of_width(8, a, b),
                list_rows_of_choice(i64::max, [a, b, c]),
                list_rows_of_choice(i64::min, [a, b, c]),
                list_other_rows([a, b, c]),
            ]
            .concat()
        })
        .collect();
    let row_count = rows[0].len();
    let words = (0..row_count).flat_map(|row| rows.iter().map(move |words| words[row]));
    let halves = words.flat_map(|word| [f64::from(word & 0xffff), f64::from(word >> 16)]);
    let expected: Vec<f64> = halves.collect();
    let harness = format!(
        "call = \"run(y, {COUNT});\"\n[inputs.x]\ndtype = \"f32\"\nshape = [1]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = [{}]\n",
        expected.len()
    );
    Public::new("simd", &harness, &[("x", &[0.0], &[1])]).assert_gives("y", &expected, 0.0);
}

/// The arguments of the functions in `special.cu`, row by row, and of the lengths.
const ARGUMENTS: [[f32; 8]; 8] = [
    [-3.5, -0.25, 1e-6, 0.75, 4.0, 9.5, 12.0, 80.0],
    [-0.9999, -0.5, -1e-4, 1e-20, 0.3, 0.51, 0.97, 0.9999999],
    [1e-35, 1e-4, 0.3, 0.5, 1.0, 1.25, 1.75, 1.9999],
    [-12.5, -5.0, -1.0, -1e-5, 0.0, 0.6, 2.5, 5.0],
    [1e-30, 1e-5, 0.1, 0.4, 0.5, 0.75, 0.99, 0.99999],
    [-30.0, -2.0, 0.0, 0.5, 7.0, 23.5, 24.5, 80.0],
    [-30.0, -2.0, 0.0, 0.5, 7.0, 23.5, 24.5, 80.0],
    [0.5, -1.25, 3.0, 0.125, -7.5, 2.0, 0.0625, 11.0],
];

/// Their values, by mpmath 1.3 with 60 digits.
const VALUES: [[f64; 8]; 7] = [
    [
        417962.4224457703,
        1.358642370104722,
        0.9999988716218358,
        0.5069376502931449,
        0.13699945762506138,
        0.05906467835256389,
        0.04685422101489376,
        0.007051818957039103,
    ],
    [
        -2.7510354379032873,
        -0.4769362762044699,
        -8.862269053849193e-05,
        8.862268973288096e-21,
        0.27246272610552374,
        0.4881220397903639,
        1.5344858888791884,
        3.7439211627767994,
    ],
    [
        8.822386132749381,
        2.7510639100462573,
        0.7328690598827589,
        0.4769362762044699,
        0.0,
        -0.2253120550121781,
        -0.8134198475976185,
        -2.7510354379032873,
    ],
    [
        3.732564298877713e-36,
        2.866515718791939e-07,
        0.15865525393145705,
        0.4999960105772968,
        0.5,
        0.72574689019462,
        0.9937903346742238,
        0.9999997133484281,
    ],
    [
        -11.464024688169063,
        -4.264890799563287,
        -1.2815515570538296,
        -0.2533470877078726,
        0.0,
        0.6744897501960817,
        2.326348231863753,
        4.264587771860222,
    ],
    [
        781672297823.9775,
        2.2795853023360673,
        1.0,
        1.0634833707413236,
        168.5939085102897,
        1329407193.9960804,
        3538383451.2172413,
        2.4751784043341704e+33,
    ],
    [
        -768532038938.957,
        -1.590636854637329,
        0.0,
        0.2578943053908963,
        156.03909286995545,
        1300807286.7073627,
        3465402511.4814854,
        2.459659579567541e+33,
    ],
];

fn length(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn functions_that_a_c_library_lacks_have_the_values_of_an_arbitrary_precision_library() {
    let vector: Vec<f64> = ARGUMENTS[7].iter().map(|&x| f64::from(x)).collect();
    let turned = |start: usize, count: usize| -> Vec<f64> {
        (start..start + count).map(|place| vector[place % 8]).collect()
    };
    let mut expected: Vec<f64> = VALUES.concat();
    expected.extend(
        (0..8).map(|i| length(&turned(i, 3)) + length(&turned(i, 4)) + length(&vector[..i.max(1)])),
    );
    expected.extend((0..8).map(|i| {
        1.0 / length(&turned(i, 3)) + 1.0 / length(&turned(i, 4)) + 1.0 / length(&vector[..=i])
    }));
    expected.extend((0..8).map(|i| 1.0 / length(&turned(i, 2)) + 1.0 / length(&turned(i + 2, 2))));
    let arguments: Vec<f32> = ARGUMENTS.concat();
    let tensors: [Tensor; 1] = [("x", &arguments, &[64])];
    let harness = "call = \"run(y, x, 8);\"\n[inputs.x]\ndtype = \"f32\"\nshape = [64]\n\
                   [outputs.y]\ndtype = \"f32\"\nshape = [80]\n";
    Public::new("special", harness, &tensors).assert_gives("y", &expected, 5e-7);
}

/// A complex number in polar form: length and angle.
fn to_polar([re, im]: [f64; 2]) -> [f64; 2] {
    [re.hypot(im), im.atan2(re)]
}

fn from_polar([length, angle]: [f64; 2]) -> [f64; 2] {
    [length * angle.cos(), length * angle.sin()]
}

fn multiply(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    let [a, b] = [a, b].map(to_polar);
    from_polar([a[0] * b[0], a[1] + b[1]])
}

fn divide(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    let [length, angle] = to_polar(b);
    multiply(a, from_polar([1.0 / length, -angle]))
}

#[test]
fn complex_numbers_of_three_libraries_are_those_of_the_plane_also_in_the_shadow() {
    const COUNT: usize = 8;
    let values = numbers(2 * COUNT, 5);
    let plane: Vec<[f64; 2]> =
        values.chunks(2).map(|pair| [f64::from(pair[0]), f64::from(pair[1])]).collect();
    let mut rows: [Vec<f64>; 3] = Default::default();
    for place in 0..COUNT {
        let [a, b] = [plane[place], plane[(place + 1) % COUNT]];
        rows[0].extend(divide(multiply(a, b), [b[0] + 3.0, b[1] + to_polar(a)[0]]));
        let power = divide(from_polar([a[0].exp(), a[1]]), [2.0 * b[0] + 3.0, 2.0 * b[1]]);
        let [length, angle] = to_polar(a);
        let root = from_polar([length.sqrt(), angle / 2.0]);
        rows[1].extend([power[0] + root[0] - b[0], power[1] + root[1] + b[1]]);
        let [length, angle] = to_polar([2.5, a[1]]);
        let power = from_polar([length.powf(1.5), 1.5 * angle]);
        let turned = multiply(from_polar([1.0, a[0]]), b);
        let sum = [turned[0] + power[0], turned[1] + power[1]];
        rows[2].extend([sum[0], to_polar(sum)[0]]);
    }
    let tensors: [Tensor; 1] = [("x", &values, &[2 * COUNT])];
    let harness = "call = \"run(y, x, 8);\"\n[inputs.x]\ndtype = \"f32\"\nshape = [16]\n\
                   [outputs.y]\ndtype = \"f32\"\nshape = [48]\n";
    Public::new("complex", harness, &tensors).assert_gives("y", &rows.concat(), 2e-6);
}

#[test]
#[ignore = "needs a GPU"]
fn intrinsics_and_functions_have_their_values_on_a_gpu() {
    on_a_gpu(
        4.0,
        &[
            words_are_taken_apart_as_the_math_api_says,
            functions_that_a_c_library_lacks_have_the_values_of_an_arbitrary_precision_library,
        ],
    );
}
