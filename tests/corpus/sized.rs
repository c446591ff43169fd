//! Defects of known size, and forms that are equal, on random data of every kind.
//!
//! A family is one source in `kernels/`. Its scalar inputs say at run time how sums are taken, which
//! value is scaled by how much, and where; so thousands of comparisons need few compilations. The
//! outputs are compared in float32, bfloat16 and float16, on a problem of each kind of data. The truth
//! is computed in float64, straight from the definitions.

mod batch;
mod comparisons;
mod draw;
mod elements;
mod gradients;
mod matrix;
mod non_finite;
mod norms;
mod products;
mod shares;

pub use comparisons::{first_seed, is_whole};
use draw::{Draw, Kind};

/// The orders in which a kernel can take a sum: `ORDERS` of `sized.cuh`.
const ORDERS: i32 = 6;

/// What a call does otherwise than the first form of its kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The order of sums, and `ORDERS` times the way to write the formula.
    form: i32,
    /// The value that a defect scales; 0 for none.
    site: i32,
    /// By how much.
    factor: f64,
    /// Where; -1 for every row.
    row: i32,
    /// Where; -1 for every column.
    column: i32,
}

impl Change {
    const NONE: Change = Change { form: 0, site: 0, factor: 1.0, row: -1, column: -1 };

    /// `value`, scaled if the defect is here; -1 stands for every row or column.
    fn at(&self, site: i32, row: i32, column: i32, value: f64) -> f64 {
        let here = self.site == site
            && (self.row < 0 || self.row == row)
            && (self.column < 0 || self.column == column);
        if here { value * self.factor } else { value }
    }
}

/// Where a defect at a site can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// One value for all.
    Scalar,
    /// One for each row.
    Rows,
    /// One for each column.
    Columns,
    /// One for each element.
    Elements,
}

/// A value that a defect scales.
#[derive(Clone, Copy, Debug)]
struct Site {
    number: i32,
    extent: Extent,
    /// The sizes that rows and columns are counted by.
    rows: &'static str,
    columns: &'static str,
    /// Whether it changes gradients only.
    backward: bool,
}

/// The elements of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elements {
    Floats,
    Integers,
}

/// An input.
struct Input {
    name: &'static str,
    elements: Elements,
    shape: &'static [&'static str],
}

/// An output, and of which input it is the gradient.
struct Output {
    name: &'static str,
    shape: &'static [&'static str],
    gradient: Option<Gradient>,
}

/// What an output is the gradient of.
struct Gradient {
    of: &'static str,
    input: &'static str,
    upstream: &'static str,
}

/// One source of `kernels/`.
struct Family {
    name: &'static str,
    inputs: &'static [Input],
    outputs: &'static [Output],
    /// The names of the sizes, in the order of the call.
    sizes: &'static [&'static str],
    sites: &'static [Site],
    /// The ways to write the formula.
    ways: i32,
    /// Whether the result jumps somewhere: rounding then decides on [`Kind::Tie`].
    jumps: bool,
    /// Sizes for a problem.
    shape: fn(&mut Draw) -> Vec<usize>,
    /// The inputs of a problem, in the order of `inputs`.
    draw: fn(&mut Draw, &Sizes) -> Vec<Vec<f64>>,
    /// The outputs, in the order of `outputs`.
    truth: fn(&Problem, &Change) -> Vec<Vec<f64>>,
}

impl Family {
    /// A seed of its own for the set of problems number `number`.
    fn seed(&self, number: u64) -> u64 {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.name.bytes().chain(number.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, mix) << 5
    }

    fn has_gradients(&self) -> bool {
        self.outputs.iter().any(|output| output.gradient.is_some())
    }
}

/// The sizes of a problem, by name.
#[derive(Clone, Debug)]
pub struct Sizes(Vec<(&'static str, usize)>);

impl Sizes {
    fn draw(family: &Family, draw: &mut Draw) -> Sizes {
        Sizes(family.sizes.iter().copied().zip((family.shape)(draw)).collect())
    }

    fn get(&self, name: &str) -> usize {
        self.0.iter().find(|(of, _)| *of == name).expect("the family has this size").1
    }

    fn count(&self, shape: &[&str]) -> usize {
        shape.iter().map(|name| self.get(name)).product()
    }
}

/// The inputs of one problem.
pub struct Problem {
    kind: Kind,
    sizes: Sizes,
    /// In the order of the family's inputs.
    inputs: Vec<Vec<f64>>,
}

impl Problem {
    fn of(family: &Family, kind: Kind, sizes: &Sizes, seed: u64) -> Problem {
        let mut draw = Draw::new(kind, seed);
        let inputs = (family.draw)(&mut draw, sizes);
        for (input, values) in family.inputs.iter().zip(&inputs) {
            assert_eq!(values.len(), sizes.count(input.shape), "{}: {}", family.name, input.name);
        }
        Problem { kind, sizes: sizes.clone(), inputs }
    }

    fn size(&self, name: &str) -> usize {
        self.sizes.get(name)
    }
}

fn families() -> Vec<&'static Family> {
    [shares::FAMILIES, norms::FAMILIES, elements::FAMILIES, products::FAMILIES].concat()
}

const fn site(number: i32, extent: Extent, [rows, columns]: [&'static str; 2]) -> Site {
    Site { number, extent, rows, columns, backward: false }
}

const fn backward(number: i32, extent: Extent, sizes: [&'static str; 2]) -> Site {
    Site { backward: true, ..site(number, extent, sizes) }
}

const fn floats(name: &'static str, shape: &'static [&'static str]) -> Input {
    Input { name, elements: Elements::Floats, shape }
}

const fn integers(name: &'static str, shape: &'static [&'static str]) -> Input {
    Input { name, elements: Elements::Integers, shape }
}

const fn output(name: &'static str, shape: &'static [&'static str]) -> Output {
    Output { name, shape, gradient: None }
}

const fn gradient(
    name: &'static str,
    shape: &'static [&'static str],
    [of, input, upstream]: [&'static str; 3],
) -> Output {
    Output { name, shape, gradient: Some(Gradient { of, input, upstream }) }
}
