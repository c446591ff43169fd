//! Several sources of a harness, each a translation unit of its own: `tests/engine/public/several`.

use replay::frontend::Precision;

use super::project::elements;
use super::public::{Public, Tensor, assert_close, numbers};

const COUNT: usize = 32;

/// Each statement names one source; together they share variables, types and constants.
const CALL: &str = "
const int W = 32, WIDE = W + 1;
float* a = y;
float* other;
cudaMalloc(&other, n * sizeof(float));
int narrow_rows = count_narrow(W);
int wide_rows = count_wide(W);
run_narrow(a, x, narrow_rows);
run_wide(a + 32, x, wide_rows);
int *shift, host_shift[1] = {7};
cudaMalloc(&shift, sizeof(int));
cudaMemcpy(shift, host_shift, sizeof(int), cudaMemcpyHostToDevice);
dim3 grid(1), block{W, 1};
narrow_kernel<W><<<grid, block>>>(a + 64, x, shift);
for (int i = 0; i < 1; i++) { wide_kernel<WIDE><<<grid, block>>>(a + 96, x, shift); }
mark_narrow(a + 128, x);
mark_wide(a + 160, x);
fill<float>(other, 3.0f, n);
cudaMemcpy(borrow(y, 192), other, n * sizeof(float), cudaMemcpyDeviceToDevice);
float counts[4];
counts[0] = narrow_launches();
counts[1] = wide_launches();
counts[2] = all_launches;
counts[3] = calls() + preferred();
cudaMemcpy(y + 224, counts, sizeof(counts), cudaMemcpyHostToDevice);
";

fn several(call: &str, elements: usize) -> (Public, Vec<f64>) {
    let harness = format!(
        "sources = [\"src/narrow.cu\", \"src/shared.cu\", \"src/wide.cu\"]\ninclude = [\"src\"]\n\
         call = \"\"\"{call}\"\"\"\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = [{elements}]\n"
    );
    let values = numbers(COUNT, 11);
    let tensors: [Tensor; 1] = [("x", &values, &[COUNT])];
    let x = values.iter().map(|&value| f64::from(value)).collect();
    (Public::new("several", &harness, &tensors), x)
}

#[test]
fn each_source_has_its_own_macros_statics_types_and_device_code_and_shares_host_code() {
    let (several, x) = several(CALL, 228);
    let mut expected: Vec<f64> = Vec::new();
    expected.extend((0..COUNT).map(|i| 2.0 * x[i / 16 * 16 + 15 - i % 16] + 100.0 + 16.0));
    expected.extend((0..COUNT).map(|i| 30.0 * x[31 - i] + 32.0));
    expected.extend(x.iter().map(|x| 2.0 * x + 32.0 + 7.0));
    expected.extend(x.iter().map(|x| 3.0 * x + 33.0 + 7.0));
    expected.extend(x.iter().map(|x| x + 1.0));
    expected.extend(x.iter().map(|x| (x + 2.0) * 4.0 + 1000.0));
    expected.extend([6.0; COUNT]);
    expected.extend([1.0, 8.0, 202.0, 52.0]);
    several.assert_gives("y", &expected, 1e-6);
    let checked = elements(&several.run(Precision::Checked), "y", expected.len());
    assert_close(&checked, &expected, 1e-6, "checked");
}

#[test]
fn a_call_chooses_among_the_overloads_of_all_sources() {
    let call = "float values[2] = {(float)halved(3), halved(3.0f)};\n\
                cudaMemcpy(y, values, sizeof(values), cudaMemcpyHostToDevice);";
    let (several, _) = several(call, 2);
    several.assert_gives("y", &[1.0, 1.5], 0.0);
}
