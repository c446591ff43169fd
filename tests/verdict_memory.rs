//! The heap that judging takes does not grow with the tensors, nor that of a series with its steps.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use replay::cache::Cache;
use replay::fixture;
use replay::numerics::compare::{beyond_noise, compare_outputs};
use replay::numerics::noise::{NoiseAccumulator, NoiseRef, NoiseSource};
use replay::numerics::oracle::against_oracle;
use replay::numerics::shadow::{Errors, Shadows};
use replay::numerics::slices::{block_map, locate_elements};
use replay::numerics::zeros::zero_slices;
use replay::scratch::Scratch;
use replay::series::load_captured_numbers;
use replay::tensor::{DType, Dim, TensorView};

/// The system's allocator, which counts.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Held by the test whose heap is counted.
static ALONE: Mutex<()> = Mutex::new(());

/// What `work` takes of the heap at most, besides what is there.
fn most(work: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed) - before
}

fn tensor(count: usize, of: impl Fn(usize) -> f32) -> Vec<u8> {
    (0..count).flat_map(|index| of(index).to_le_bytes()).collect()
}

/// Judges tensors of this shape as a comparison of two revisions does.
fn judge(shape: &[usize], scratch: &Scratch) -> usize {
    let count: usize = shape.iter().product();
    let value = |index: usize| 1.0 + (index % 1000) as f32;
    let base = tensor(count, value);
    let rounded = tensor(count, |index| value(index) * (1.0 + 1e-7 * (index % 3) as f32));
    let ordered = tensor(count, |index| value(index) + f32::from(u8::from(index % 5 == 0)));
    let got = tensor(count, |index| if index % 7 < 3 { 0.0 } else { value(index) });
    let view = |bytes| TensorView { dtype: DType::F32, shape, bytes };
    let [base, rounded, ordered, got] = [&base, &rounded, &ordered, &got].map(|bytes| view(bytes));
    most(|| {
        let mut accumulator = NoiseAccumulator::new(&base, scratch).unwrap();
        accumulator.add(&base, &rounded, NoiseSource::Rounding).unwrap();
        accumulator.add(&base, &ordered, NoiseSource::Order).unwrap();
        let found = accumulator.ordered(&base).unwrap().expect("elements that depend on it");
        assert_eq!(found.elements.count() as usize, count.div_ceil(5));
        let noise = accumulator.finish(&base, Some(found)).unwrap();
        let both = NoiseRef { base: Some(&noise.per_element), got: Some(&noise.per_element) };
        assert!(compare_outputs(&base, &got, &both).unwrap().beyond > 0);
        let beyond = beyond_noise(&base, &got, &both, scratch).unwrap();
        let dims: Vec<Dim> = shape.iter().map(|&size| Dim { name: None, size }).collect();
        assert!(locate_elements(&beyond, &dims, &[], scratch).unwrap().is_some());
        zero_slices(&base, &got, &dims, scratch).unwrap();
        block_map(&beyond, shape);
        against_oracle(&got, &base, &both).unwrap();
        let shadows = Shadows::new(base, got, DType::F32, both, scratch).unwrap();
        assert!(shadows.change().moved > 0);
        shadows.moved(scratch).unwrap();
        let base_shadow = base;
        let got_shadow = base;
        let noise = both;
        assert!(!Errors { base, got, base_shadow, got_shadow, noise }.are_alike());
    })
}

#[test]
fn the_heap_that_judging_takes_does_not_grow_with_the_tensors() {
    let _alone = ALONE.lock().expect("no test has failed");
    let folder = tempfile::tempdir().expect("a folder");
    let few = 1 << 18;
    let scratch = || Scratch::in_folder(folder.path(), few);
    // In one row, which is too long to be copied, and in many.
    for shape in [|count: usize| vec![count], |count: usize| vec![count / 64, 64]] {
        let small = judge(&shape(1 << 17), &scratch());
        let large = judge(&shape(1 << 19), &scratch());
        assert!(large < few + (1 << 20), "{large} bytes");
        assert!(large < small + few, "{small} bytes, then {large}");
        assert!(judge(&shape(1 << 17), &Scratch::heap()) > 16 << 17, "the counter counts");
    }
}

/// Writes the steps `0..count` of a run below `folder`: tensors that are converted when they are read.
fn write_steps(folder: &Path, count: usize, elements: usize) {
    let values = tensor(elements, |index| (index % 200) as f32);
    let harness = "sources = [\"a.cu\"]\ncall = \"f(x, y, n);\"\n[inputs.x]\ndtype = \"bf16\"\n\
                   shape = [\"n\"]\n[outputs.y]\ndtype = \"f32\"\nshape = []\n";
    std::fs::write(folder.join("replay.toml"), harness).expect("a harness");
    for step in 0..count {
        let dir = folder.join(format!("step{step}"));
        std::fs::create_dir(&dir).expect("a folder");
        std::fs::write(dir.join("fixture.toml"), "harness = \"../replay.toml\"\n").expect("a step");
        let x = [("x", DType::F32, &[elements][..], &values[..])];
        fixture::write_safetensors(&dir, &x, &[("x.dtype", "bf16")]).expect("tensors");
    }
}

#[test]
fn the_heap_that_a_series_takes_grows_by_numbers_alone() {
    let _alone = ALONE.lock().expect("no test has failed");
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(&folder.path().join("cache")).expect("a cache");
    let count = 40;
    let elements = 1 << 17;
    write_steps(folder.path(), count, elements);
    let read = |steps: std::ops::Range<usize>| {
        most(|| {
            let numbers = steps.map(|step| {
                let dir = folder.path().join(format!("step{step}"));
                load_captured_numbers(&dir, &cache).expect("numbers")
            });
            assert!(numbers.collect::<Vec<_>>().iter().all(|(one, _)| one.tensors[0].is_some()));
        })
    };
    let few = read(0..4);
    let many = read(4..count);
    assert!(few > 2 * elements, "the counter counts: {few}");
    assert!(many < few + elements, "{few} bytes, then {many}");
    // What the cache knows is not read again.
    let again = read(0..count);
    assert!(again < 2 * elements, "{again} bytes for what is known");
}
