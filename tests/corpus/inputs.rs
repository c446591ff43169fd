//! The tensors that the corpus is replayed on, made from a seed: the same on every machine.
//!
//! Four fixtures a family: `small` has powers of two, `odd` has sizes that no power of two and no
//! warp divides, `wide` has rows longer than a block can have threads, and `large-magnitude` has
//! values at which a careless order of operations overflows or cancels.

#[path = "../../examples/generator/rng.rs"]
mod rng;

use std::path::Path;

use replay::fixture::{NewTensor, write_safetensors};
use replay::tensor::DType;

pub use rng::Rng as Random;

/// The elements of a tensor.
pub enum Data {
    /// float32.
    F32(Vec<f32>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// Bytes.
    U8(Vec<u8>),
}

/// One input.
pub struct Tensor {
    name: &'static str,
    shape: Vec<usize>,
    data: Data,
}

/// The inputs of one fixture.
pub struct Inputs {
    /// The name of the fixture.
    pub name: &'static str,
    tensors: Vec<Tensor>,
}

impl Inputs {
    /// Writes `inputs.safetensors` into `dir`.
    pub fn write(&self, dir: &Path) {
        let bytes: Vec<(DType, Vec<u8>)> = self.tensors.iter().map(Tensor::bytes).collect();
        let tensors: Vec<NewTensor> = (self.tensors.iter())
            .zip(&bytes)
            .map(|(tensor, (dtype, bytes))| (tensor.name, *dtype, &tensor.shape[..], &bytes[..]))
            .collect();
        write_safetensors(dir, &tensors, &[]).expect("a fixture can be written");
    }

    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// The sizes of the tensor called `name`.
    pub fn shape(&self, name: &str) -> &[usize] {
        &self.tensor(name).expect("the tensor is there").shape
    }

    /// The elements of the tensor called `name`, if it is there.
    pub fn get(&self, name: &str) -> Option<Vec<f64>> {
        self.tensor(name).map(|tensor| match &tensor.data {
            Data::F32(values) => values.iter().map(|&value| f64::from(value)).collect(),
            Data::I32(values) => values.iter().map(|&value| f64::from(value)).collect(),
            Data::U8(values) => values.iter().map(|&value| f64::from(value)).collect(),
        })
    }

    /// The elements of a float tensor that must be there.
    pub fn floats(&self, name: &str) -> Vec<f64> {
        self.get(name).expect("the tensor is there")
    }

    /// The elements of an integer tensor that must be there.
    pub fn integers(&self, name: &str) -> Vec<i64> {
        self.floats(name).into_iter().map(|value| value as i64).collect()
    }
}

impl Tensor {
    fn bytes(&self) -> (DType, Vec<u8>) {
        match &self.data {
            Data::F32(v) => (DType::F32, v.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Data::I32(v) => (DType::I32, v.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Data::U8(v) => (DType::U8, v.clone()),
        }
    }
}

impl Random {
    /// Bell-shaped with mean 0 and deviation 1: a sum of four uniform numbers, for which no
    /// function of the platform's is needed.
    pub fn bell(&mut self) -> f64 {
        let unit = |x: u64| (x >> 11) as f64 / (1u64 << 53) as f64;
        let sum: f64 = (0..4).map(|_| unit(self.next())).sum();
        (sum - 2.0) * 3f64.sqrt()
    }
}

/// Makes the tensors of one fixture.
struct Builder {
    random: Random,
    inputs: Inputs,
}

impl Builder {
    fn new(family: &str, name: &'static str) -> Builder {
        let seed = family
            .bytes()
            .chain(name.bytes())
            .fold(7u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Builder { random: Random(seed), inputs: Inputs { name, tensors: Vec::new() } }
    }

    fn push(mut self, name: &'static str, shape: &[usize], data: Data) -> Builder {
        self.inputs.tensors.push(Tensor { name, shape: shape.to_vec(), data });
        self
    }

    /// Bell-shaped values around `mean`.
    fn bell(mut self, name: &'static str, shape: &[usize], mean: f64, deviation: f64) -> Builder {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|_| (mean + deviation * self.random.bell()) as f32).collect();
        self.push(name, shape, Data::F32(values))
    }

    /// Bell-shaped values around a mean of its own in each row.
    ///
    /// The last of a row lies above its mean, so that a kernel that forgets it is wrong.
    fn rows(
        mut self,
        name: &'static str,
        shape: &[usize],
        means: &[f64],
        deviation: f64,
    ) -> Builder {
        let row = *shape.last().expect("rows have a length");
        let count: usize = shape.iter().product();
        let mut value = |i: usize| {
            let bell = if i % row == row - 1 { 1.0 } else { self.random.bell() };
            (means[i / row % means.len()] + deviation * bell) as f32
        };
        let values = (0..count).map(&mut value).collect();
        self.push(name, shape, Data::F32(values))
    }

    fn scalar(self, name: &'static str, value: f32) -> Builder {
        self.push(name, &[], Data::F32(vec![value]))
    }

    /// Indices below `bound`, the last one among them.
    fn indices(mut self, name: &'static str, shape: &[usize], bound: usize) -> Builder {
        let count: usize = shape.iter().product();
        let mut values: Vec<i32> = (0..count).map(|_| self.random.below(bound) as i32).collect();
        values[count / 2] = bound as i32 - 1;
        self.push(name, shape, Data::I32(values))
    }

    /// A mask that leaves out every third position.
    fn mask(self, name: &'static str, shape: &[usize]) -> Builder {
        let count: usize = shape.iter().product();
        self.push(name, shape, Data::U8((0..count).map(|i| u8::from(i % 3 != 1)).collect()))
    }

    fn done(self) -> Inputs {
        self.inputs
    }
}

/// The fixtures of `family`.
///
/// # Panics
/// If there is no such family.
pub fn fixtures(family: &str) -> Vec<Inputs> {
    match family {
        "lm_loss" => lm_loss(),
        "linear_loss" => linear_loss(),
        "softmax" => softmax(),
        "layernorm" => layernorm(),
        "matmul_bias" => matmul_bias(),
        "embedding" => embedding(),
        "attention" => attention(),
        _ => panic!("no family {family}"),
    }
}

fn lm_loss() -> Vec<Inputs> {
    let sized = |name, [batch, seq, vocab]: [usize; 3], means: &[f64], deviation| {
        Builder::new("lm_loss", name)
            .rows("logits", &[batch, seq, vocab], means, deviation)
            .indices("targets", &[batch, seq], vocab)
    };
    vec![
        sized("small", [2, 4, 64], &[0.0], 2.0).done(),
        sized("odd", [1, 5, 37], &[0.5], 2.0).mask("mask", &[1, 5]).done(),
        sized("wide", [1, 3, 1301], &[0.0], 1.0).mask("mask", &[1, 3]).done(),
        sized("large-magnitude", [2, 3, 64], &[200.0, 3000.0, -4000.0], 3.0)
            .mask("mask", &[2, 3])
            .done(),
    ]
}

fn linear_loss() -> Vec<Inputs> {
    let sized = |name, [rows, dim, vocab]: [usize; 3], deviation, temperature| {
        Builder::new("linear_loss", name)
            .bell("hidden", &[rows, dim], 0.0, deviation)
            .bell("weight", &[vocab, dim], 0.0, 0.5)
            .indices("targets", &[rows], vocab)
            .scalar("temperature", temperature)
            .done()
    };
    vec![
        sized("small", [8, 16, 32], 1.0, 0.7),
        sized("odd", [5, 7, 35], 1.0, 1.3),
        sized("wide", [3, 9, 1100], 1.0, 0.9),
        sized("large-magnitude", [4, 12, 48], 60.0, 0.5),
    ]
}

fn softmax() -> Vec<Inputs> {
    let sized = |name, shape: [usize; 2], means: &[f64], deviation| {
        Builder::new("softmax", name)
            .rows("x", &shape, means, deviation)
            .bell("grad_y", &shape, 0.0, 1.0)
            .done()
    };
    vec![
        sized("small", [8, 64], &[0.0], 2.0),
        sized("odd", [5, 45], &[0.3], 2.0),
        sized("wide", [3, 1302], &[0.0], 2.0),
        sized("large-magnitude", [6, 64], &[300.0, 2000.0, -5000.0], 10.0),
    ]
}

fn layernorm() -> Vec<Inputs> {
    let sized = |name, [rows, cols]: [usize; 2], mean, deviation, epsilon| {
        Builder::new("layernorm", name)
            .bell("x", &[rows, cols], mean, deviation)
            .bell("gamma", &[cols], 1.0, 0.3)
            .bell("grad_y", &[rows, cols], 0.0, 1.0)
            .scalar("epsilon", epsilon)
            .done()
    };
    vec![
        sized("small", [8, 64], 0.2, 1.0, 0.01),
        sized("odd", [5, 35], -0.3, 1.0, 0.01),
        sized("wide", [3, 1200], 0.1, 1.0, 0.01),
        sized("large-magnitude", [4, 64], 1e6, 1e3, 1e-5),
    ]
}

fn matmul_bias() -> Vec<Inputs> {
    let sized = |name, [m, k, n]: [usize; 3], magnitude| {
        Builder::new("matmul_bias", name)
            .bell("x", &[m, k], 0.0, magnitude)
            .bell("weight", &[k, n], 0.0, magnitude)
            .bell("bias", &[n], 0.0, magnitude * magnitude)
            .bell("grad_out", &[m, n], 0.0, 1.0)
            .done()
    };
    vec![
        sized("small", [16, 32, 32], 1.0),
        sized("odd", [11, 37, 19], 1.0),
        sized("wide", [3, 130, 1100], 1.0),
        sized("large-magnitude", [8, 48, 16], 1e5),
    ]
}

fn embedding() -> Vec<Inputs> {
    let sized = |name, [tokens, vocab, dim]: [usize; 3], magnitude| {
        let mut builder = Builder::new("embedding", name)
            .bell("table", &[vocab, dim], 0.0, magnitude)
            .bell("grad_out", &[tokens, dim], 0.0, magnitude)
            .scalar("decay", 0.1);
        // Small tokens are frequent, as in text; every seventh is padding.
        let mut values: Vec<i32> = (0..tokens)
            .map(|_| builder.random.below(vocab).min(builder.random.below(vocab)) as i32)
            .collect();
        values.iter_mut().skip(2).step_by(7).for_each(|token| *token = -1);
        values[tokens / 2] = vocab as i32 - 1;
        values[tokens - 1] = values[0];
        builder.push("tokens", &[tokens], Data::I32(values)).done()
    };
    vec![
        sized("small", [32, 16, 8], 1.0),
        sized("odd", [37, 19, 7], 1.0),
        sized("wide", [201, 400, 5], 1.0),
        sized("large-magnitude", [64, 8, 8], 1e15),
    ]
}

fn attention() -> Vec<Inputs> {
    let sized = |name, [heads, length]: [usize; 2], magnitude| {
        let square = [heads, length, length];
        Builder::new("attention", name)
            .bell("scores", &square, 0.0, magnitude)
            .bell("tau", &[heads], 1.0, 0.2)
            .bell("bias", &[heads, length], 0.0, 0.5)
            .bell("grad_weights", &square, 0.0, 1.0)
            .done()
    };
    vec![
        sized("small", [4, 16], 1.0),
        sized("odd", [3, 13], 1.0),
        sized("wide", [2, 70], 1.0),
        sized("large-magnitude", [4, 24], 100.0),
    ]
}
