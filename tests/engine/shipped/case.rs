//! The cases that lines `//@` of a source describe: the function, the call (`$` is the function), sizes, inputs,
//! outputs (`=` tells what one begins as), and the loop of `reference.cpp` that gives the expected values.

use replay::tensor::DType;

/// What float32 may be off by, of the greater of 1 and the value.
const TOLERANCE: f64 = 2e-5;
/// Tensors lie this many elements apart, so that each is aligned as by an allocation.
const APART: usize = 64;
/// The dtypes of tensors.
pub const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::I32];

/// One call of one function.
pub struct Case {
    pub name: String,
    pub call: String,
    pub sizes: Vec<(String, i64)>,
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
    pub reference: String,
    pub parameters: Vec<(String, String)>,
    pub tolerance: f64,
    /// The output that takes what the call returns.
    pub result: Option<String>,
}

pub struct Tensor {
    pub name: String,
    pub dtype: DType,
    pub count: usize,
    /// Values are whole and below this.
    pub below: Option<i64>,
    pub positive: bool,
    /// 0, or the input that an output begins as.
    pub begin: Option<String>,
}

impl Tensor {
    /// `NAME:DTYPE[COUNT]` with `<BELOW`, `+` or `=BEGIN` behind.
    fn parse(text: &str, sizes: &[(String, i64)]) -> Tensor {
        let (head, rest) = text.split_once('[').unwrap();
        let (count, rest) = rest.split_once(']').unwrap();
        let (name, dtype) = head.split_once(':').unwrap_or((head, "f32"));
        Tensor {
            name: name.to_owned(),
            dtype: DType::parse(dtype).unwrap(),
            count: value(count, sizes) as usize,
            below: rest.strip_prefix('<').map(|below| value(below, sizes)),
            positive: rest == "+",
            begin: rest.strip_prefix('=').map(str::to_owned),
        }
    }

    /// Its values, exact in its dtype, others for each `seed`.
    pub fn values(&self, seed: u64) -> Vec<f64> {
        let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        let one = |x: f64| match (self.below, self.positive) {
            (Some(below), _) => ((x + 1.0) / 2.0 * below as f64).floor().min(below as f64 - 1.0),
            (None, true) => (x + 1.0) / 2.0 + 0.125,
            (None, false) => x * 1.5,
        };
        (0..self.count).map(|_| self.rounded(one(next()))).collect()
    }

    fn rounded(&self, x: f64) -> f64 {
        match self.dtype {
            DType::F16 => half::f16::from_f64(x).to_f64(),
            DType::BF16 => half::bf16::from_f64(x).to_f64(),
            DType::F32 => f64::from(x as f32),
            _ => x,
        }
    }

    pub fn bytes(&self, x: f64) -> Vec<u8> {
        match self.dtype {
            DType::F16 => half::f16::from_f64(x).to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::from_f64(x).to_le_bytes().to_vec(),
            DType::F32 => (x as f32).to_le_bytes().to_vec(),
            _ => (x as i32).to_le_bytes().to_vec(),
        }
    }

    pub fn room(&self) -> usize {
        self.count.next_multiple_of(APART)
    }
}

/// The value of a product such as `B*T*(H/2)`.
fn value(text: &str, sizes: &[(String, i64)]) -> i64 {
    let mut product = 1;
    for factor in text.replace(['(', ')'], "").split('*') {
        let mut parts = factor.split('/').map(|word| {
            let known = sizes.iter().find(|(name, _)| name == word).map(|&(_, size)| size);
            known.unwrap_or_else(|| word.parse().unwrap_or_else(|_| panic!("{text}: {word}")))
        });
        let first = parts.next().unwrap();
        product *= parts.fold(first, |value, by| value / by);
    }
    product
}

/// The cases of the source with this text.
pub fn cases(text: &str) -> Vec<Case> {
    scaled(text, &|_| 1)
}

/// The same with the first size of each multiplied by what `factor` tells for its name.
pub fn scaled(text: &str, factor: &dyn Fn(&str) -> i64) -> Vec<Case> {
    let mut found: Vec<Case> = Vec::new();
    let mut open = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("//@ ")) {
        let (key, rest) = line.split_once(' ').unwrap();
        if key == "case" {
            open = found.len();
            found.extend(rest.split(' ').map(|name| Case {
                name: name.to_owned(),
                call: String::new(),
                sizes: Vec::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                reference: String::new(),
                parameters: Vec::new(),
                tolerance: TOLERANCE,
                result: None,
            }));
        }
        for case in &mut found[open..] {
            case.describe(key, rest);
            if key == "sizes" {
                case.sizes[0].1 *= factor(&case.name);
            }
        }
    }
    found
}

impl Case {
    fn describe(&mut self, key: &str, rest: &str) {
        let pairs = |text: &str| -> Vec<(String, String)> {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let tensors = || rest.split(' ').map(|text| Tensor::parse(text, &self.sizes)).collect();
        match key {
            "case" => {}
            "call" => self.call = rest.replace('$', self.name.split(':').next().unwrap()),
            "sizes" => {
                let sizes = pairs(rest).into_iter();
                self.sizes = sizes.map(|(name, size)| (name, size.parse().unwrap())).collect();
            }
            "in" => self.inputs = tensors(),
            "out" => self.outputs = tensors(),
            "ref" => {
                self.reference = rest.split(' ').next().unwrap().to_owned();
                self.parameters = pairs(rest);
            }
            "tol" => self.tolerance = rest.parse().unwrap(),
            "result" => self.result = Some(rest.to_owned()),
            other => panic!("{other}"),
        }
    }

    /// The values of input number `index`.
    pub fn values(&self, index: usize) -> Vec<f64> {
        let seed = self
            .reference
            .bytes()
            .fold(index as u64 * 7919, |s, b| (s * 31 + u64::from(b)) % 1_000_003);
        self.inputs[index].values(seed)
    }

    /// What an output holds before the call.
    pub fn begin(&self, output: &Tensor) -> Vec<f64> {
        match output.begin.as_deref() {
            None | Some("0") => vec![0.0; output.count],
            Some(name) => {
                let index = self.inputs.iter().position(|input| input.name == name).unwrap();
                self.values(index)
            }
        }
    }

    /// The elements of all tensors.
    pub fn elements(&self) -> usize {
        self.inputs.iter().chain(&self.outputs).map(|tensor| tensor.count).sum()
    }

    /// The statements, with the tensors at their places in the buffers.
    pub fn statements(&self) -> String {
        let sizes = self.sizes.iter().map(|(name, size)| format!("const int {name} = {size}; "));
        let mut text: String = sizes.collect();
        for (tensors, kind) in [(&self.inputs, "in"), (&self.outputs, "out")] {
            let mut at = [0; DTYPES.len()];
            for tensor in tensors {
                let place = DTYPES.iter().position(|dtype| *dtype == tensor.dtype).unwrap();
                let ty = TYPES[place];
                let dtype = tensor.dtype.name();
                text += &format!("{ty}* {} = {kind}_{dtype} + {}; ", tensor.name, at[place]);
                at[place] += tensor.room();
            }
        }
        for output in &self.outputs {
            let Tensor { name, count, begin, .. } = output;
            let bytes = format!("{count} * sizeof(*{name})");
            text += &match begin.as_deref() {
                None => String::new(),
                Some("0") => format!("cudaMemset({name}, 0, {bytes}); "),
                Some(from) => {
                    format!("cudaMemcpy({name}, {from}, {bytes}, cudaMemcpyDeviceToDevice); ")
                }
            };
        }
        if self.result.is_some() {
            text += "float host = 0; float* host_result = &host; ";
        }
        text += &self.call;
        if let Some(result) = &self.result {
            text +=
                &format!(" cudaMemcpy({result}, &host, sizeof(float), cudaMemcpyHostToDevice);");
        }
        text
    }

    /// The case as `reference.cpp` reads it.
    pub fn question(&self) -> String {
        let list = |values: &[f64]| values.iter().map(|x| format!(" {x:?}")).collect::<String>();
        let mut text = format!("{}\n", self.reference);
        for (name, size) in &self.sizes {
            text += &format!("size {name} {size}\n");
        }
        for (name, parameter) in &self.parameters {
            text += &format!("size {name} {parameter}\n");
        }
        for (index, input) in self.inputs.iter().enumerate() {
            text += &format!("in {} {}{}\n", input.name, input.count, list(&self.values(index)));
        }
        for output in &self.outputs {
            text += &format!("out {} {}{}\n", output.name, output.count, list(&self.begin(output)));
        }
        text + "end\n"
    }
}

/// The names of [`DTYPES`] in CUDA C++.
pub const TYPES: [&str; 4] = ["float", "half", "__nv_bfloat16", "int"];
