//! CUB, Thrust, cuRAND, graphs and libcu++: `tests/engine/public/libraries`, `grid` and `clusters`, in the shadow too. Inputs
//! are such that sums are exact.

use replay::frontend::Precision;
use replay::runtime::report::{AccessFinding, FoundKind};
use replay::worker::Ending;

use crate::common::gpu_lab::{Device, MINUTE, Small, checksum, lab, shared_cache};

use super::project::elements;
use super::public::{Public, Tensor, numbers, on_a_gpu};

fn input() -> Vec<f32> {
    (0..5000).map(|i: usize| ((i * 7919) % 61) as f32 / 4.0 - 7.0).collect()
}

fn public(which: usize) -> Public {
    public_of("libraries", which)
}

fn public_of(folder: &str, which: usize) -> Public {
    let harness = "call = \"run(which, x, out);\"\n\
         [inputs.which]\ndtype = \"i32\"\nshape = []\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [5000]\n\
         [outputs.out]\ndtype = \"f32\"\nshape = [16384]\n";
    let x = input();
    let tensors: [Tensor; 2] = [("which", &[which as f32], &[]), ("x", &x, &[5000])];
    Public::new(folder, harness, &tensors)
}

fn input64() -> Vec<f64> {
    input().into_iter().map(f64::from).collect()
}

/// `x` and the sums up to each element.
fn running(x: &[f64]) -> Vec<f64> {
    let sum = |sum: &mut f64, x: &f64| {
        *sum += x;
        Some(*sum)
    };
    x.iter().scan(0.0, sum).collect()
}

#[test]
fn cub_reduces_scans_and_loads_in_blocks_and_warps() {
    let x = input64();
    let mut block = vec![0.0; 8];
    block[0] = x[..200].iter().sum::<f64>() / 200.0;
    block[1] = x[..200].iter().fold(0.0, |a: f64, &b| a.max(b));
    block[2] = (255 * 128 + 256) as f64;
    let before = |i: usize| (i / 2 * (i / 2 + 1) / 2 + i % 2 * (i / 2)) as f64;
    block.extend((0..512).map(before));
    public(0).assert_gives("out", &block, 1e-6);
    let mut warp: Vec<f64> = (0..4).map(|w| x[w * 8..w * 8 + 8].iter().sum()).collect();
    warp.extend(running(&x[..32]));
    warp.extend((0..32).map(|lane| if lane < 3 { lane } else { lane - 3 } as f64));
    warp.extend((0..32).map(|lane| if lane % 8 < 5 { lane + 3 } else { lane } as f64));
    warp.extend((0..32).map(|lane| (lane / 8 * 8 + 5) as f64));
    public(1).assert_gives("out", &warp, 0.0);
    let loaded = |i: usize| {
        let from = i % 64 * 4 + i / 64;
        if from < 250 { x[from] } else { -1.0 }
    };
    let sums = running(&x[..256]);
    let mut tiles: Vec<f64> = (0..256).map(loaded).collect();
    tiles.extend(&sums);
    tiles.extend((0..256).map(|i| 1.0 + sums[i] - x[i]));
    public(2).assert_gives("out", &tiles, 0.0);
}

#[test]
fn blocks_of_a_cooperative_launch_wait_for_each_other() {
    let x = input64();
    let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let expected: Vec<f64> = x.iter().map(|x| x / norm).chain([24.0]).collect();
    for which in 0..3 {
        public_of("grid", which).assert_gives("out", &expected, 1e-6);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn blocks_of_a_cooperative_launch_wait_for_each_other_on_a_gpu() {
    on_a_gpu(1.0, &[blocks_of_a_cooperative_launch_wait_for_each_other]);
}

#[test]
fn blocks_of_a_cluster_share_their_shared_memory() {
    let x = input64();
    let mut bins = vec![0.0; 56 * 8];
    for size in [1, 2, 4, 8] {
        for x in &x {
            bins[56 * (size - 1) + ((x + 7.0) * 4.0) as usize % 56] += 1.0;
        }
    }
    public_of("clusters", 0).assert_gives("out", &bins, 0.0);
    let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    let rows = x[..4096].chunks(512).flat_map(|row| row.iter().map(|x| x / norm(row)));
    public_of("clusters", 1).assert_gives("out", &rows.collect::<Vec<_>>(), 1e-6);
    let reversed: Vec<f64> = (0..64).map(|thread| f64::from(63 - thread) + 1.0).collect();
    public_of("clusters", 3).assert_gives("out", &reversed, 0.0);
}

#[test]
fn clusters_work_by_inline_ptx_and_with_instances_of_templates() {
    let x = input64();
    let from = |n: usize| n / 128 * 128 + (n % 128 + 96) % 128;
    let rank = |n: usize| (n / 32 % 2) as f64;
    let expected: Vec<f64> = (0..256).map(|n| 2.0 * x[from(n)] + rank(n)).collect();
    let public = public_of("clusters", 6);
    public.assert_gives("out", &expected, 0.0);
    let run = public.run_here();
    let kernels: Vec<&str> = run.launches.iter().map(|launch| launch.kernel.as_str()).collect();
    assert_eq!(kernels, ["by_ptx", "add_rank<float, 32>"]);
}

#[test]
fn a_thread_knows_its_place_in_its_cluster() {
    let place = |n: usize| {
        let block = n / 32;
        let thread = n % 32;
        let at = [block % 4 % 2, block / 4];
        let rank = at[1] * 2 + at[0];
        let index = [at[0] * 8 + thread % 8, at[1] * 4 + thread / 8];
        let next = (rank + 1) % 4 * 100 + 31 - thread;
        let grid = block % 4 / 2 * 10 + 2;
        let place = [rank, rank * 32 + thread, 128, at[0] * 10 + at[1]];
        place.into_iter().chain([index[0] * 100 + index[1], 16 * 100 + 2, grid, next])
    };
    let expected: Vec<f64> = (0..8 * 32).flat_map(place).map(|value| value as f64).collect();
    public_of("clusters", 2).assert_gives("out", &expected, 0.0);
}

#[test]
fn a_cooperative_grid_may_have_as_many_blocks_as_occupancy_says() {
    let public = public_of("clusters", 4);
    public.assert_gives("out", &[1.0; 16384], 0.0);
    let run = public.run_here();
    assert_eq!(run.printed, "cudaErrorCooperativeLaunchTooLarge\n");
    assert_eq!(run.launches[0].grid, [264, 1, 1]);
}

/// Measured on an NVIDIA H200 with CUDA 13.0.
#[test]
fn clusters_are_refused_as_cuda_refuses_them() {
    let public = public_of("clusters", 5);
    public.assert_gives("out", &[512.0 + 32.0], 0.0);
    insta::assert_snapshot!(public.run_here().printed, @r"
    cudaErrorInvalidClusterSize
    cudaErrorInvalidClusterSize
    cudaErrorInvalidClusterSize
    cudaErrorInvalidClusterSize
    cudaErrorInvalidClusterSize
    ");
}

#[test]
#[ignore = "needs a GPU"]
fn blocks_of_a_cluster_share_their_shared_memory_on_a_gpu() {
    on_a_gpu(
        1.0,
        &[
            blocks_of_a_cluster_share_their_shared_memory,
            a_thread_knows_its_place_in_its_cluster,
            a_cooperative_grid_may_have_as_many_blocks_as_occupancy_says,
            clusters_are_refused_as_cuda_refuses_them,
            clusters_work_by_inline_ptx_and_with_instances_of_templates,
        ],
    );
}

#[test]
fn cub_sorts_exchanges_flags_and_counts_the_items_of_a_block() {
    let x = &input64()[..256];
    let mut order: Vec<usize> = (0..256).collect();
    order.sort_by(|&a, &b| x[b].total_cmp(&x[a]));
    let mut expected: Vec<f64> = order.iter().map(|&at| x[at]).collect();
    expected.extend(order.iter().map(|&at| at as f64));
    let mut rising = x.to_vec();
    rising.sort_by(f64::total_cmp);
    expected.extend(rising);
    let mut numbers: Vec<usize> = (0..256).map(|i| i * 37 % 256).collect();
    numbers.sort_by_key(|number| number >> 4);
    expected.extend(numbers.iter().map(|&number| number as f64));
    let head = |i: usize| f64::from(i == 0 || numbers[i] / 32 != numbers[i - 1] / 32);
    expected.extend((0..256).map(head));
    let bin = |bin: usize| numbers.iter().filter(|&&number| number % 13 == bin).count() as f64;
    expected.extend((0..16).map(bin));
    public(13).assert_gives("out", &expected, 0.0);
}

#[test]
#[ignore = "needs a GPU"]
fn cub_works_in_blocks_and_warps_on_a_gpu_as_on_the_cpu() {
    let sorts = cub_sorts_exchanges_flags_and_counts_the_items_of_a_block;
    on_a_gpu(1.0, &[cub_reduces_scans_and_loads_in_blocks_and_warps, sorts]);
}

#[test]
fn cub_reduces_scans_and_sorts_device_memory() {
    let x = input64();
    let mut order: Vec<usize> = (0..5000).collect();
    order.sort_by(|&a, &b| x[b].total_cmp(&x[a]));
    let mut expected = vec![0.0; 8];
    expected[0] = x.iter().sum();
    (expected[1], expected[2]) = (order[0] as f64, x[order[0]]);
    expected.extend(order.iter().map(|&at| x[at]));
    expected.extend(order.iter().map(|&at| at as f64));
    expected.extend(running(&x));
    public(3).assert_gives("out", &expected, 0.0);
}

#[test]
fn cub_chooses_encodes_and_counts_device_memory() {
    const COUNT: usize = 64;
    let values = numbers(COUNT, 9);
    let x: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
    // Runs of 4, but for some of one.
    let keys: Vec<i32> = (0..COUNT).map(|i| i32::from(i % 8 < 5) * (1 + i as i32 / 8)).collect();
    let (positive, others): (Vec<f64>, Vec<f64>) = x.iter().partition(|&&x| x > 0.0);
    let mut runs: Vec<(i32, Vec<usize>)> = Vec::new();
    for (place, &key) in keys.iter().enumerate() {
        match runs.last_mut().filter(|(last, _)| *last == key) {
            Some((_, places)) => places.push(place),
            None => runs.push((key, vec![place])),
        }
    }
    let flagged: Vec<f64> = (0..COUNT).filter(|&i| keys[i] != 0).map(|i| x[i]).collect();
    let row = |values: &[f64]| [values, &vec![0.0; COUNT - values.len()]].concat();
    let counts =
        [positive.len(), positive.len(), flagged.len(), runs.len(), runs.len(), runs.len()];
    let mut expected: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
    expected.extend([runs.len() as f64, (0..COUNT).map(|i| (3 + i) as f64).sum()]);
    expected.extend(row(&positive));
    expected.extend(positive.iter().chain(others.iter().rev()));
    expected.extend(row(&flagged));
    let unique: Vec<f64> = runs.iter().map(|(key, _)| f64::from(*key)).collect();
    let lengths: Vec<f64> = runs.iter().map(|(_, places)| places.len() as f64).collect();
    expected.extend(row(&[unique, lengths].concat()));
    let sum = |(_, places): &(i32, Vec<usize>)| places.iter().map(|&i| 2.0 * x[i]).sum();
    expected.extend(row(&runs.iter().map(sum).collect::<Vec<f64>>()));
    let bin = |bin: usize| x.iter().filter(|x| ((*x + 2.0) * 2.0) as usize == bin).count() as f64;
    expected.extend(row(&(0..8).map(bin).collect::<Vec<f64>>()));
    let mut sorted = x.clone();
    sorted.chunks_mut(8).for_each(|segment| segment.sort_by(|a, b| b.total_cmp(a)));
    expected.extend([sorted.clone(), sorted].concat());
    let harness = "call = \"run(y, x, keys, 64);\"\n\
                   [inputs.x]\ndtype = \"f32\"\nshape = [64]\n[inputs.keys]\ndtype = \"f32\"\nshape = [64]\n\
                   [outputs.y]\ndtype = \"f32\"\nshape = [520]\n";
    let key_values: Vec<f32> = keys.iter().map(|&key| key as f32).collect();
    let tensors: [Tensor; 2] = [("x", &values, &[COUNT]), ("keys", &key_values, &[COUNT])];
    Public::new("selection", harness, &tensors).assert_gives("y", &expected, 1e-6);
}

#[test]
fn graphs_run_what_was_captured_as_often_as_they_are_launched() {
    let x = input64();
    let mut expected: Vec<f64> =
        (0..256).map(|i| x[i] * if i < 128 { 9.0 } else { 27.0 }).collect();
    expected.extend([4.0, 1.0, 2.0 * x[0], 2.0 * x[1]]);
    public(4).assert_gives("out", &expected, 0.0);
}

/// Measured with cuRAND 10.4 on an NVIDIA H200.
#[test]
fn curand_has_the_bits_of_the_library() {
    let hexadecimal = |text: &str| -> Vec<f64> { text.split(' ').map(from_hexadecimal).collect() };
    let philox = hexadecimal(
        "1.9d2286p-4 1.510abp-2 1.0dc682p-1 1.17fb26p-2 1.be6012p-1 1.678a58p-2 1.91b21ep-1 1.de84c2p-1 1.5322d8p-1",
    );
    let philox_normal = hexadecimal(
        "1.e1ee82p+0 -1.059274p+0 1.1eaa5cp+0 -1.53e8d4p-3 1.afaffep-2 -1.3e473p-2 -1.1ce988p-2 1.46fa24p-1 -1.26e39ep-1",
    );
    let xorwow = hexadecimal(
        "1.941f8ap-1 1.5d7a38p-1 1.5b8984p-2 1.40e6f8p-2 1.ce48dp-1 1.e546cp-1 1.d9bd62p-1 1.df43ecp-1 1.716974p-2",
    );
    let xorwow_normal = hexadecimal(
        "-1.411176p-1 -1.2194aep-2 1.5ae556p+0 -1.23e362p-1 -1.2a2816p-3 1.b62ap-2 -1.3b994ap-3 1.737416p-2 -1.341c0ep+0",
    );
    let four = hexadecimal(
        "1.8d2d84p-1 1.61173p-2 1.d29ae8p-2 1.b4afd4p-3 -1.63e1fp-4 1.dcae8ap-3 -1.49fe1ep-1 -1.1dd394p-1",
    );
    // Behind four words, and four uniform numbers.
    for precision in [Precision::Native, Precision::Shadow] {
        let found = elements(&public(5).run(precision), "out", 44);
        let parts = [
            (0, &philox, true),
            (9, &philox_normal, false),
            (18, &xorwow, true),
            (27, &xorwow_normal, false),
            (36, &four, false),
        ];
        for (at, expected, is_exact) in parts {
            for (i, expected) in expected.iter().enumerate() {
                let off = (found[at + i] - expected).abs();
                let exact = is_exact && precision == Precision::Native;
                assert!(if exact { off == 0.0 } else { off < 3e-6 }, "{at} {i}: {}", found[at + i]);
            }
        }
    }
}

#[test]
fn curand_stores_numbers_in_the_order_of_the_library() {
    let uniform =
        |bits: u32| (f64::from(bits as f32) * 2f64.powi(-32) + 2f64.powi(-33)) as f32 as f64;
    let xorwow =
        [(0, 624778773), (1, 3522650202), (9, 1225999208), (4096, 1867875844), (4099, 1325236058)];
    let philox =
        [(0, 546353992), (3, 3419031310), (4, 3507855656), (9, 3966386679), (4096, 2053518784)];
    let behind = [[3732235839, 48542993], [1392278645, 2336459095]];
    // A seed does not go back to the begin of the sequence.
    let normals = [[0.51054412, -1.41869736], [0.17764033, -0.17352009]];
    let hexadecimal =
        |list: [(usize, &str); 12]| list.map(|(at, text)| (at, from_hexadecimal(text)));
    let on = [
        hexadecimal([
            (6000, "1.8fdbc6p-1"),
            (6007, "-1.1fd04ep-1"),
            (6008, "1.d457dcp-1"),
            (6011, "1.90d294p-1"),
            (6012, "-1.7966bp-1"),
            (6017, "-1.8a96e2p-5"),
            (6018, "1.dee75ap-3"),
            (6021, "1.428298p-1"),
            (6024, "-1.02e6b6p+0"),
            (6027, "-1.1fd04ep-1"),
            (6028, "1.d457dcp-1"),
            (6031, "1.90d294p-1"),
        ]),
        hexadecimal([
            (6000, "-1.9dd252p+0"),
            (6007, "1.4f8e7ap-1"),
            (6008, "1.168712p-1"),
            (6011, "1.08766ap-2"),
            (6012, "-1.d29b14p-1"),
            (6017, "-1.204d3ap+0"),
            (6018, "1.6f38fap-2"),
            (6021, "1.6f4236p-1"),
            (6024, "-1.8f7f98p+0"),
            (6027, "-1.24c1fcp-2"),
            (6028, "1.8fe67ep-1"),
            (6031, "1.d8d484p-1"),
        ]),
    ];
    for (which, (first, (behind, normals))) in
        [xorwow, philox].into_iter().zip(behind.into_iter().zip(normals)).enumerate()
    {
        let run = public(6 + which).run_here();
        let found = elements(&run, "out", 5015);
        for (at, bits) in first {
            assert_eq!(found[at], uniform(bits), "{which} {at}");
        }
        for (i, normal) in normals.into_iter().enumerate() {
            assert!((found[5000 + i] - normal).abs() < 3e-6, "{which} {i}: {}", found[5000 + i]);
        }
        assert_eq!([found[5008], found[5011]], behind.map(uniform), "{which}");
        assert_eq!(found[5012], found[9], "a second call goes on");
        let all = elements(&run, "out", 6032);
        for (at, expected) in &on[which] {
            assert!((all[*at] - expected).abs() < 3e-6, "{which} {at}: {}", all[*at]);
        }
    }
}

#[test]
fn thrust_runs_over_device_vectors() {
    let mut x = input64();
    let mut expected = vec![0.0; 8];
    expected[0] = x.iter().sum();
    expected[1] = x.iter().map(|x| x * x).sum();
    let largest = x.iter().fold(f64::MIN, |a, &b| a.max(b));
    expected[2] = x.iter().position(|&x| x == largest).unwrap() as f64;
    expected[3] = x[17];
    expected[4] = x[..100].iter().fold(1.0, |a: f64, &b| a.max(b));
    let sums = running(&x[..20]);
    x[17] = 9.0;
    let mut order: Vec<usize> = (0..5000).collect();
    order.sort_by(|&a, &b| x[a].total_cmp(&x[b]));
    expected.extend(order[..20].iter().map(|&at| at as f64));
    expected.extend(sums);
    expected.extend([x[order[4999]], 0.0, 1.0, 4.0, 9.0]);
    public(8).assert_gives("out", &expected, 0.0);
}

#[test]
fn thrust_chooses_moves_and_finds_items() {
    let x = &input64()[..100];
    let positive: Vec<f64> = x.iter().copied().filter(|&x| x > 0.0).collect();
    let sums: Vec<f64> = x.chunks(7).map(|run| run.iter().sum()).collect();
    let twice: Vec<f64> = x.iter().map(|x| 1.0 + 2.0 * x).collect();
    let mut expected = vec![0.0; 550];
    expected[..positive.len()].copy_from_slice(&positive);
    expected[100..115].copy_from_slice(&sums);
    expected[130..230].copy_from_slice(&twice);
    for i in 0..100 {
        expected[230 + i] = x[99 - i];
        expected[330 + i] = if i == 0 { x[0] } else { x[i] - x[i - 1] };
    }
    (0..10).for_each(|i| expected[450 + 99 - i] = x[i]);
    let place = |value: f64| x.iter().position(|&x| x == value).unwrap() as f64;
    let told = [
        positive.len() as f64,
        15.0,
        15.0,
        place(x[40]),
        x.iter().filter(|&&x| x == 2.0).count() as f64,
        1.0,
        x.iter().zip(&twice).map(|(x, y)| x * y).sum(),
        x[90..].iter().sum(),
        x.iter().copied().fold(f64::MAX, f64::min),
        x.iter().copied().fold(f64::MIN, f64::max),
        (100 - positive.len()) as f64,
        if twice[0] > 0.0 { -1.0 } else { twice[0] },
    ];
    expected[430..442].copy_from_slice(&told);
    public(10).assert_gives("out", &expected, 0.0);
}

/// The numbers of `thrust::minstd_rand` from `seed` on.
fn minstd_numbers(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed * 48271 % 2147483647), |x| Some(x * 48271 % 2147483647))
}

#[test]
fn thrust_divides_merges_searches_and_draws() {
    let x = input64();
    let (mut a, mut b) = (x[..100].to_vec(), x[100..160].to_vec());
    let (positive, others): (Vec<f64>, Vec<f64>) = a.iter().partition(|&&x| x > 0.0);
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let mut merged = [a.as_slice(), &b].concat();
    merged.sort_by(f64::total_cmp);
    let below = |value: f64| a.partition_point(|&x| x < value) as f64;
    let upto = |value: f64| a.partition_point(|&x| x <= value) as f64;
    // As often as in the range that has more, or fewer, of them.
    let count = |items: &[f64], value: f64| items.iter().filter(|&&x| x == value).count();
    let mut values = merged.clone();
    values.dedup();
    let repeated = |times: &dyn Fn(usize, usize) -> usize| -> Vec<f64> {
        let runs = values
            .iter()
            .map(|&value| std::iter::repeat_n(value, times(count(&a, value), count(&b, value))));
        runs.flatten().collect()
    };
    let common = repeated(&|a, b| a.min(b));
    let united = repeated(&|a, b| a.max(b));
    let alone = repeated(&|a, b| b.saturating_sub(a));
    let mut expected = vec![0.0; 1616];
    let mut put = |at: usize, items: &[f64]| expected[at..at + items.len()].copy_from_slice(items);
    put(0, &positive);
    put(positive.len(), &others.iter().rev().copied().collect::<Vec<_>>());
    put(100, &positive);
    put(100 + positive.len(), &others);
    put(200, &merged);
    put(400, &b.iter().map(|&value| below(value)).collect::<Vec<_>>());
    put(500, &x[100..160].iter().map(|&value| upto(value)).collect::<Vec<_>>());
    put(600, &common);
    put(700, &united);
    put(900, &alone);
    for (run, items) in x[..100].chunks(7).enumerate() {
        let sums = running(items);
        put(1000 + 7 * run, &sums);
        put(1100 + 7 * run, &[1.0]);
        let behind: Vec<f64> = sums[..items.len() - 1].iter().map(|sum| 1.0 + sum).collect();
        put(1101 + 7 * run, &behind);
    }
    put(1200, &running(&x[..20]).iter().map(|sum| 2.0 * sum).collect::<Vec<_>>());
    let chosen = |x: &f64| if *x > 0.0 { 2.0 * x } else { 0.0 };
    put(1220, &x[..20].iter().map(chosen).collect::<Vec<_>>());
    put(1240, &x[..20].iter().rev().copied().collect::<Vec<_>>());
    let unit = |drawn: u64| (drawn - 1) as f64 / 2147483646.0;
    let numbers: Vec<f64> = minstd_numbers(7).take(50).map(|n| 4.0 * unit(n) - 1.0).collect();
    put(1300, &numbers);
    put(1400, &positive);
    let drawn: Vec<u64> = minstd_numbers(1).skip(9999).take(3).collect();
    // The C++ standard names this one.
    assert_eq!(drawn[0], 399268537);
    let first_apart = a.iter().zip(&merged).position(|(one, other)| one != other);
    let lengths = [positive.len(), common.len(), united.len(), alone.len(), positive.len()];
    put(1600, &lengths.map(|length| length as f64));
    let told = [
        drawn[0] as f64 / 1024.0,
        (6.0 * unit(drawn[1])).floor() + 1.0,
        // Of the upper half, which is mirrored.
        ((drawn[2] - 1) as f64 - 0.5) / 2147483645.0,
        f64::from(u8::from(a.contains(&0.25))),
        0.0,
        1.0,
        0.0,
        first_apart.unwrap() as f64,
        1.0,
        5.0,
        below(2.0),
    ];
    put(1605, &told);
    public(12).assert_gives("out", &expected, 1e-6);
}

#[test]
fn kernels_search_sort_and_draw_with_thrust_as_by_hand() {
    let thrust = "#include <thrust/binary_search.h>\n#include <thrust/random.h>\n#include <thrust/sort.h>\n\
        __global__ void k(const float* x, float* out, int n) {\n\
          __shared__ float sorted[64];\n\
          sorted[threadIdx.x] = x[threadIdx.x];\n\
          __syncthreads();\n\
          if (threadIdx.x == 0) thrust::sort(thrust::seq, sorted, sorted + n);\n\
          __syncthreads();\n\
          float* place = thrust::lower_bound(thrust::seq, sorted, sorted + n, x[threadIdx.x]);\n\
          thrust::minstd_rand engine(threadIdx.x + 1);\n\
          thrust::uniform_real_distribution<float> unit;\n\
          engine.discard(threadIdx.x);\n\
          out[threadIdx.x] = (float)(place - sorted) + unit(engine);\n\
        }\n";
    let by_hand = "__global__ void k(const float* x, float* out, int n) {\n\
          int below = 0;\n\
          for (int i = 0; i < n; i++) below += x[i] < x[threadIdx.x];\n\
          unsigned long long state = threadIdx.x + 1;\n\
          for (unsigned i = 0; i <= threadIdx.x; i++) state = state * 48271 % 2147483647;\n\
          out[threadIdx.x] = (float)below + (float)(state - 1) / 2147483648.f;\n\
        }\n";
    let cache = shared_cache();
    let numbers = &input()[..64];
    let checksum_of = |source: &str| {
        let small = Small::floats_of(source, "k<<<1, n>>>(x, out, n);", numbers);
        checksum(&small.replay(&lab(&cache, Device::Cpu, MINUTE)))
    };
    assert_eq!(checksum_of(thrust), checksum_of(by_hand));
}

#[test]
fn groups_of_lanes_by_a_label_and_packs_of_8_bit_numbers_are_there() {
    let x = input64();
    let lane = |t: usize| {
        let rank = t % 32;
        let four = (t % 4) as f64;
        let size = (32 - rank % 3).div_ceil(3);
        let odd: usize = (0..32).filter(|lane| lane % 2 == rank % 2).sum();
        let packs = four * 1000.0 + 50.0 + four * 10.0 + 2.0 - four + 0.25;
        [x[63 - t] + x[64 + t], (size * 100 + rank / 3) as f64, odd as f64, packs]
    };
    let expected: Vec<f64> = (0..64).flat_map(lane).collect();
    public(11).assert_gives("out", &expected, 0.0);
}

#[test]
#[ignore = "needs a GPU"]
fn the_host_computes_cub_s_and_thrust_s_algorithms_over_the_memory_of_a_gpu() {
    on_a_gpu(
        1.0,
        &[
            cub_reduces_scans_and_sorts_device_memory,
            thrust_runs_over_device_vectors,
            thrust_chooses_moves_and_finds_items,
            thrust_divides_merges_searches_and_draws,
            groups_of_lanes_by_a_label_and_packs_of_8_bit_numbers_are_there,
        ],
    );
}

#[test]
#[ignore = "needs a GPU and cuRAND"]
fn curand_itself_generates_the_numbers_of_host_code_on_a_gpu() {
    on_a_gpu(1.0, &[curand_stores_numbers_in_the_order_of_the_library]);
}

#[test]
fn barriers_and_pipelines_of_a_block_order_copies() {
    let x = input64();
    let staged = |t: usize| {
        let stages: f64 = (0..4).map(|stage| x[128 * stage + (t + 1) % 128]).sum();
        x[127 - t] + stages + x[t]
    };
    let mut expected: Vec<f64> = (0..128).map(staged).collect();
    let shadow: Vec<f64> = [&expected[..], &x[..128], &x[..128], &[256.0]].concat();
    // Three and two bits behind the point.
    let rounded = |x: f64, bits: i32| {
        let exponent = x.abs().max(0.25).log2().floor() as i32;
        let unit = 2f64.powi(exponent - bits);
        (x / unit).round_ties_even() * unit
    };
    expected.extend(x[..128].iter().map(|&x| rounded(x, 3)));
    expected.extend(x[..128].iter().map(|&x| rounded(x, 2)));
    expected.push(256.0);
    let public = public(9);
    assert_eq!(elements(&public.run(Precision::Native), "out", 385), expected);
    assert_eq!(elements(&public.run(Precision::Shadow), "out", 385), shadow);
}

#[test]
fn library_code_has_no_races_of_its_own() {
    for which in [0, 1, 3, 4, 9] {
        let run = public(which).run(Precision::Checked);
        assert_eq!(run.findings.refused, None, "{which}");
        let found = run.findings.found.iter().filter(|found| found.kind != FoundKind::SameValue);
        assert_eq!(found.collect::<Vec<_>>(), Vec::<&AccessFinding>::new(), "{which}");
    }
}

#[test]
fn a_checked_replay_follows_the_barriers_of_a_grid_and_no_loop_that_waits() {
    for (folder, which) in [("grid", 0), ("grid", 1), ("clusters", 0), ("clusters", 1)] {
        let run = public_of(folder, which).run(Precision::Checked);
        assert_eq!(run.ending, Ending::Completed, "{folder} {which}");
        assert_eq!(run.findings.found, Vec::<AccessFinding>::new(), "{folder} {which}");
    }
    let ending = format!("{:?}", public_of("grid", 2).run(Precision::Checked).ending);
    assert!(ending.contains("blocks that wait in a loop cannot be checked"), "{ending}");
}

/// The number `text`, as `%a` writes it behind the `0x`.
fn from_hexadecimal(text: &str) -> f64 {
    let (sign, text) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let (digits, exponent) = text.split_once('p').unwrap();
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = u64::from_str_radix(&format!("{whole}{fraction}"), 16).unwrap() as f64;
    sign * all * 2f64.powi(exponent.parse::<i32>().unwrap() - 4 * fraction.len() as i32)
}

#[test]
fn a_block_ranks_keys_by_a_digit_with_the_smaller_headers_of_cuda() {
    let keys: Vec<f32> = (0..128).map(|i| ((i * 7919) % 61 % 16) as f32).collect();
    let rank = |descending: bool| {
        let before = |a: f32, b: f32| if descending { a > b } else { a < b };
        let of = |(i, &key): (usize, &f32)| {
            let others = keys.iter().enumerate();
            others.filter(|&(j, &k)| before(k, key) || (k == key && j < i)).count() as f64
        };
        keys.iter().enumerate().map(of).collect::<Vec<f64>>()
    };
    for descending in [false, true] {
        let harness = format!(
            "call = \"run(out, in, {descending});\"\n[inputs.in]\ndtype = \"f32\"\nshape = [128]\n\
             [outputs.out]\ndtype = \"f32\"\nshape = [128]\n"
        );
        let public = Public::new("smaller", &harness, &[("in", &keys, &[128])]);
        public.assert_gives("out", &rank(descending), 0.0);
        assert_eq!(public.run(Precision::Checked).findings.found, []);
    }
}
