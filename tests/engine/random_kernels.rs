//! Random kernels against the same with a stack for each thread: values, the order of turns, and atomics.
//!
//! `REPLAY_FUZZ_SECONDS=600 cargo test random_kernels` goes on with new ones for ten minutes.

use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime};

use crate::corpus::inputs::Random;

use super::thread_loop::{assert_same_as_with_stacks, forms, open_cases};

/// Kernels of one source file.
const KERNELS: usize = 12;

/// Who comes to a statement together.
#[derive(Clone, Copy, PartialEq)]
enum Together {
    Block,
    Warp,
    Thread,
}

/// Kinds of statements.
struct Features {
    atomic_results: bool,
    single_shuffles: bool,
    votes: bool,
    calls: bool,
    counting_barriers: bool,
    /// A list of turns: no thread may run before its turn then.
    notes: bool,
    atomics: bool,
}

/// Writes the body of one kernel.
struct Writer {
    random: Random,
    text: String,
    /// Names made so far.
    names: usize,
    /// Whether threads may have left the kernel: the others wait at barriers alone.
    some_left: bool,
    /// What the kernel has beside barriers and chains of shuffles, which have a form of their own.
    has: Features,
}

impl Writer {
    fn one_of<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.random.below(words.len())]
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("s{}", self.names)
    }

    /// A float32 expression without side effects.
    fn real(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.one_of(&["a", "b", "c", "v[i & 3]", "0.375f", "number(i)"]).to_owned();
        }
        let [x, y] = [self.real(depth - 1), self.real(depth - 1)];
        match self.random.below(7) {
            0 => format!("({x} + {y})"),
            1 => format!("({x} - 0.3f * {y})"),
            2 => format!("fmaxf({x}, {y})"),
            3 => format!("({x} > {y} ? {x} : {y})"),
            4 => format!("(float)({} & 15)", self.integer(depth - 1)),
            5 => format!("(0.1f * expf(fminf({x}, 3.0f)))"),
            _ => x,
        }
    }

    /// An int expression without side effects.
    fn integer(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.one_of(&["i", "j", "t", "lane", "n", "7", "(int)(u & 63)"]).to_owned();
        }
        let [x, y] = [self.integer(depth - 1), self.integer(depth - 1)];
        match self.random.below(6) {
            0 => format!("({x} + {y})"),
            1 => format!("({x} ^ {y})"),
            2 => format!("({x} * 3 & 511)"),
            3 => format!("({x} < {y} ? {y} : 5)"),
            4 => format!("max({x}, {y})"),
            _ => x,
        }
    }

    /// A condition on which threads differ.
    fn own_condition(&mut self) -> String {
        match self.random.below(4) {
            0 => format!("{} > 0.5f", self.real(1)),
            1 => format!("({} & 3) == 1", self.integer(1)),
            2 => "lane < 9".to_owned(),
            _ => format!("t % {} == 0", 2 + self.random.below(5)),
        }
    }

    /// A condition on which all that come `together` agree.
    fn common_condition(&mut self, together: Together) -> String {
        let number = 1 + self.random.below(3);
        match (together, self.random.below(3)) {
            (Together::Warp, _) => format!("warp % {} == 0", number + 1),
            (_, 0) => format!("n % {} == 0", number + 1),
            (_, 1) => format!("blockIdx.x == {}", number - 1),
            _ => "rounds > 1".to_owned(),
        }
    }

    fn line(&mut self, text: &str) {
        self.text += text;
        self.text.push('\n');
    }

    fn block(&mut self, head: &str, depth: usize, together: Together) {
        self.line(&format!("{head} {{"));
        for _ in 0..1 + self.random.below(3) {
            self.statement(depth, together);
        }
        self.line("}");
    }

    fn statement(&mut self, depth: usize, together: Together) {
        let waits_for_lanes = together != Together::Thread && !self.some_left;
        match self.random.below(if together == Together::Thread { 9 } else { 24 }) {
            0 | 1 => {
                let (name, value) = (self.one_of(&["a", "b", "c", "v[j & 3]"]), self.real(2));
                self.line(&format!("{name} = bound({value});"));
            }
            2 => {
                let (name, value) = (self.one_of(&["i", "j"]), self.integer(2));
                self.line(&format!("{name} = {value} & 1023;"));
            }
            3 if self.has.notes => {
                let tag = self.random.below(50);
                self.line(&format!("note(out, {tag} * 2048 + t);"));
            }
            4 if depth > 0 => {
                let condition = self.own_condition();
                self.block(&format!("if ({condition})"), depth - 1, Together::Thread);
                if self.random.below(2) == 0 {
                    self.block("else", depth - 1, Together::Thread);
                }
            }
            5 if depth > 0 => {
                let k = self.name();
                let head = format!("for (int {k} = 0; {k} < (i & 3); {k}++)");
                self.block(&head, depth - 1, Together::Thread);
            }
            6 if self.has.atomics => {
                let (place, value) = (self.integer(1), self.real(1));
                self.line(&format!("atomicAdd(&real[({place}) & 63], bound({value}));"));
            }
            7 if self.has.atomic_results => {
                let place = self.integer(1);
                self.line(&format!("j = (j + atomicAdd(&counts[({place}) & 15], 1)) & 1023;"));
            }
            8 => {
                let (name, value) = (self.name(), self.real(1));
                self.line(&format!(
                    "{{ const float {name} = {value}; c = bound(c * 0.5f + {name}); }}"
                ));
            }
            9..=11 if waits_for_lanes => self.shuffle(),
            12 if waits_for_lanes && self.has.votes => self.vote(),
            13 | 14 if waits_for_lanes && self.has.calls => self.call(together),
            15 | 16 if depth > 0 => self.common_statement(depth, together),
            17 if depth > 0 && waits_for_lanes => {
                self.block("if (warp % 2 == 0)", depth - 1, Together::Warp);
            }
            18..=20 if together == Together::Block => self.exchange(),
            21 if together == Together::Block => {
                let value = self.real(1);
                self.line(&format!(
                    "for (int k = t; k < n; k += threads) {{ a = bound(a + number(k) * {value}); }}"
                ));
            }
            22 if together == Together::Block && self.has.counting_barriers => {
                let (condition, name) = (self.own_condition(), self.name());
                let function = self.one_of(&["count", "or", "and"]);
                self.line(&format!(
                    "const int {name} = __syncthreads_{function}({condition}); i = (i + {name}) & 1023;"
                ));
            }
            _ if together == Together::Block => self.line("__syncthreads();"),
            _ => self.line("c = bound(c + 0.25f);"),
        }
    }

    /// A loop or a condition around waits.
    fn common_statement(&mut self, depth: usize, together: Together) {
        let condition = self.common_condition(together);
        match self.random.below(4) {
            0 => {
                self.block(&format!("if ({condition})"), depth - 1, together);
                if self.random.below(2) == 0 {
                    self.block("else", depth - 1, together);
                }
            }
            1 => {
                let k = self.name();
                self.line(&format!("for (int {k} = 0; {k} < rounds; ++{k}) {{"));
                self.statement(depth - 1, together);
                if self.random.below(3) == 0 {
                    let word = self.one_of(&["break", "continue"]);
                    self.line(&format!("if ({condition} && {k} > 0) {word};"));
                }
                self.statement(depth - 1, together);
                self.line("}");
            }
            2 => {
                let k = self.name();
                self.line(&format!("int {k} = rounds + 1;"));
                self.block(&format!("while ({k}-- > 0)"), depth - 1, together);
            }
            _ => {
                let k = self.name();
                self.line(&format!("int {k} = 0;"));
                self.block("do", depth - 1, together);
                self.line(&format!("while (++{k} < rounds);"));
            }
        }
    }

    fn shuffle(&mut self) {
        if !self.has.single_shuffles {
            return self.chain();
        }
        let by = 1 << self.random.below(5);
        let kind = self.one_of(&["xor", "up", "down"]);
        let value = self.real(1);
        let (x, y) = (self.one_of(&["a", "b", "c"]), self.one_of(&["a", "b", "c"]));
        let name = self.name();
        let text = match self.random.below(9) {
            0 => format!("{x} += __shfl_{kind}_sync(FULL_MASK, {x}, {by}); {x} = bound({x});"),
            1 => format!(
                "float {name} = __shfl_{kind}_sync(FULL_MASK, {value}, {by}); if (lane >= {by}) {x} = bound({x} + {name});"
            ),
            2 => format!(
                "{x} = bound({y} * 0.5f + __shfl_sync(FULL_MASK, {value}, {}));",
                self.random.below(32)
            ),
            3 => format!("i = __shfl_{kind}_sync(FULL_MASK, i + {by}, {by}) & 1023;"),
            4 => format!(
                "for (int {name} = 16; {name} > 0; {name} /= 2) {x} = fmaxf({x}, __shfl_{kind}_sync(FULL_MASK, {x}, {name}));"
            ),
            5 => format!(
                "{x} = bound(__shfl_{kind}_sync(FULL_MASK, {x}, {by}, 8) - __shfl_xor_sync(FULL_MASK, {y}, 2));"
            ),
            6 => format!("d += __shfl_{kind}_sync(FULL_MASK, d, {by}) * 0.5;"),
            7 => format!(
                "for (int {name} = 1; {name} < 32; {name} *= 2) {{ int other = __shfl_{kind}_sync(FULL_MASK, j, {name}); {x} = bound({x} + __shfl_xor_sync(FULL_MASK, {y}, {name})); if (other > j) j = other; }}"
            ),
            _ => format!("l ^= __shfl_{kind}_sync(FULL_MASK, l + i, {by});"),
        };
        self.line(&text);
    }

    fn chain(&mut self) {
        let x = self.one_of(&["a", "b", "c"]);
        let kind = self.one_of(&["xor", "up", "down"]);
        let k = self.name();
        let text = match self.random.below(4) {
            0 => format!(
                "for (int {k} = 16; {k} > 0; {k} /= 2) {x} = fmaxf({x}, __shfl_{kind}_sync(FULL_MASK, {x}, {k})); {x} = bound({x});"
            ),
            1 => format!(
                "for (int {k} = 1; {k} < 32; {k} <<= 1) {{ {x} += __shfl_{kind}_sync(FULL_MASK, {x}, {k}); }} {x} = bound({x});"
            ),
            2 => format!(
                "{x} += __shfl_xor_sync(FULL_MASK, {x}, 2); {x} += __shfl_xor_sync(FULL_MASK, {x}, 1); {x} = bound({x});"
            ),
            _ => format!(
                "for (int {k} = 4; {k} > 0; {k} >>= 1) i = max(i, __shfl_{kind}_sync(FULL_MASK, i, {k}, 8));"
            ),
        };
        self.line(&text);
    }

    fn vote(&mut self) {
        let condition = self.own_condition();
        let text = match self.random.below(6) {
            0 => format!("u ^= __ballot_sync(FULL_MASK, {condition});"),
            1 => format!("if (__any_sync(FULL_MASK, {condition})) i = (i + 1) & 1023;"),
            2 => format!("c = __all_sync(FULL_MASK, {condition}) ? a : c;"),
            3 => "__syncwarp();".to_owned(),
            4 => format!(
                "j = (j + __popc(__ballot_sync(FULL_MASK, {condition}) & ((1u << lane) - 1))) & 1023;"
            ),
            _ => format!(
                "{{ unsigned mask = __ballot_sync(FULL_MASK, {condition}); if (mask >> lane & 1) b = bound(b + __shfl_sync(mask, a, __ffs(mask) - 1)); }}"
            ),
        };
        self.line(&text);
    }

    fn call(&mut self, together: Together) {
        let value = self.real(1);
        let x = self.one_of(&["a", "b", "c"]);
        let text = match self.random.below(if together == Together::Block { 7 } else { 5 }) {
            0 => format!("{x} = bound(warp_sum({value}));"),
            1 => format!("{x} = bound({x} + warp_largest<float>({value}) * 0.5f);"),
            2 => "i = warp_largest(i) & 1023;".to_owned(),
            3 => format!("{x} = bound(warp_scan({x}, lane));"),
            4 => {
                "{ float count = 1.0f; welford(a, b, count); a = bound(a), b = bound(b + count); }"
                    .to_owned()
            }
            5 => format!("{x} = bound(block_sum<float>({value}, t, threads));"),
            _ => format!("if (block_sum({x}, t, threads) > 1.0f) {x} = 0.5f * {x};"),
        };
        self.line(&text);
    }

    /// Values through shared memory.
    fn exchange(&mut self) {
        let (value, by) = (self.real(1), 1 + self.random.below(40));
        let text = match self.random.below(3) {
            0 => format!(
                "tile[t] = {value}; __syncthreads(); b = bound(b + tile[(t + {by}) % threads]); __syncthreads();"
            ),
            1 =>
                "tile[t] = a; __syncthreads(); for (int s = threads / 2; s > 0; s >>= 1) { if (t < s) tile[t] += tile[t + s]; __syncthreads(); } c = bound(tile[0]); __syncthreads();".to_owned(),
            _ => format!(
                "if (t == {by} % threads) shared_value = {value}; __syncthreads(); a = bound(a * 0.5f + shared_value); __syncthreads();"
            ),
        };
        self.line(&text);
    }
}

/// The kernel of `seed` and its case.
fn write_kernel(seed: u64) -> String {
    let mut random = Random(seed);
    let mut one_in_five = || random.below(5) == 0;
    let has = Features {
        atomic_results: one_in_five(),
        single_shuffles: one_in_five(),
        votes: one_in_five(),
        calls: one_in_five(),
        counting_barriers: one_in_five(),
        notes: random.below(2) == 0,
        atomics: random.below(2) == 0,
    };
    let mut writer = Writer { random, text: String::new(), names: 0, some_left: false, has };
    let may_leave = writer.random.below(5) == 0;
    for _ in 0..4 + writer.random.below(8) {
        writer.statement(3, Together::Block);
        if may_leave && !writer.some_left && writer.random.below(3) == 0 {
            writer.line("if (t % 7 == 3) return;");
            writer.some_left = true;
        }
    }
    // A kernel that calls functions of the sources is hardly ever cut into regions.
    let calls_own = writer.random.below(2) == 0;
    let threads = ["1", "31", "32", "33", "64", "96", "100", "256", "dim3(8, 8)", "dim3(16, 3, 2)"];
    let threads = writer.one_of(&threads);
    let (blocks, n, rounds) =
        (1 + writer.random.below(3), writer.random.below(400), writer.random.below(4));
    let mut text = String::new();
    let _ = write!(
        text,
        "__global__ void kernel_{seed}(long long* out, float* real, int n, int rounds) {{
__shared__ float tile[256];
__shared__ float shared_value;
__shared__ int counts[16];
const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
const int threads = blockDim.x * blockDim.y * blockDim.z, lane = t % 32, warp = t / 32;
float a = number(t), b = number(t + 3), c = 0.5f, v[4] = {{a, b, 1.0f, 2.0f}};
int i = t * 37 & 255, j = 3;
unsigned u = t;
double d = a;
long long l = t;
if (t < 16) counts[t] = 0;
tile[t] = 0.0f, shared_value = 1.0f;
__syncthreads();
{}const int place = 100 + (int)(blockIdx.x * threads + t) * 5;
if (place + 4 < 4096) {{
real[place] = a + v[1], real[place + 1] = b, real[place + 2] = c + v[0];
real[place + 3] = (float)(d + v[2] + v[3]), real[place + 4] = (float)(i + j + (int)(l & 255) + (int)(u & 255));
}}
}}
static void case_{seed}(long long* out, float* real) {{
cudaMemset(out, 0, 4096 * sizeof(long long)); cudaMemset(real, 0, 4096 * sizeof(float));
kernel_{seed}<<<{blocks}, {threads}>>>(out, real, {n}, {rounds});
}}
",
        writer.text
    );
    if calls_own { text } else { text.replace("bound(", "sinf(").replace("number(", "cosf(") }
}

/// The sources of the kernels whose seeds begin with `first_seed`.
fn write_kernels(first_seed: u64) -> String {
    let kernels = (0..KERNELS as u64).map(|k| write_kernel(first_seed + k));
    include_str!("random_kernels.cu").to_owned() + &kernels.collect::<String>()
}

#[test]
fn random_kernels_have_the_bits_and_turns_of_stacks() {
    let first = write_kernels(1);
    let reasons: Vec<_> = forms(&first).into_iter().filter_map(|form| form.1).collect();
    assert!(reasons.len() < KERNELS / 2, "{reasons:#?}");
    assert_same_as_with_stacks(&open_cases(&first));
    let seconds = std::env::var("REPLAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a date");
    let mut seed = now.as_secs() << 20;
    while Instant::now() < end {
        assert_same_as_with_stacks(&open_cases(&write_kernels(seed)));
        seed += KERNELS as u64;
    }
}
