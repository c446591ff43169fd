//! The kernels of benches/engine/kernels.cu, as people write them, in their own form against a stack for each thread.

use std::fmt::Write;

use super::project::Project;
use super::thread_loop::assert_same_as_with_stacks;

const KERNELS: &str = include_str!("../../benches/engine/kernels.cu");
const TABLE: &str = include_str!("../../benches/engine/kernels.txt");

/// Functions for the cases: random inputs, the same on every machine, and a number for the bits of an output.
const HELPERS: &str = r#"
#include <vector>
static unsigned long long random_state;
static double random_number() {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return (random_state >> 40) / (double)(1 << 24);
}
static float* random_floats(size_t count, bool in_unit_interval) {
  std::vector<float> values(count);
  for (float& value : values) {
    double sum = 0;
    for (int k = 0; k < 4; k++) sum += random_number();
    value = in_unit_interval ? (float)((sum + 1e-3) / 4.01) : (float)((sum - 2) * 1.7);
  }
  float* at;
  cudaMalloc(&at, count * sizeof(float));
  cudaMemcpy(at, values.data(), count * sizeof(float), cudaMemcpyHostToDevice);
  return at;
}
static float* random_ints(size_t count, int below) {
  std::vector<int> values(count);
  for (int& value : values) value = (int)(random_number() * below);
  float* at;
  cudaMalloc((void**)&at, count * sizeof(int));
  cudaMemcpy(at, values.data(), count * sizeof(int), cudaMemcpyHostToDevice);
  return at;
}
static float* zeros(size_t count) {
  float* at;
  cudaMalloc(&at, count * sizeof(float));
  cudaMemset(at, 0, count * sizeof(float));
  return at;
}
static void tell(long long* out, float* real, int output, const float* at, size_t count) {
  std::vector<unsigned> words(count);
  cudaMemcpy(words.data(), at, count * sizeof(float), cudaMemcpyDeviceToHost);
  unsigned long long hash = 14695981039346656037ull;
  for (unsigned word : words) hash = (hash ^ word) * 1099511628211ull;
  const long long number = (long long)(hash >> 12);
  cudaMemcpy(out + output, &number, sizeof number, cudaMemcpyHostToDevice);
  cudaMemcpy(real + 512 * output, at, (count < 512 ? count : 512) * sizeof(float), cudaMemcpyDeviceToHost);
}
"#;

/// The sources of one case for each kernel of the table, at its small size.
fn cases() -> String {
    let mut text = format!("{KERNELS}{HELPERS}");
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let [name, inputs, outputs, small, ..] =
            line.split('|').map(str::trim).collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let (rows, columns) = small.split_once('x').expect("ROWSxCOLUMNS");
        let input = |tensor: &str| match tensor.split(':').collect::<Vec<_>>()[..] {
            [count, "i", below] => format!("random_ints({count}, {below})"),
            [count, kind] => format!("random_floats({count}, {})", kind == "u"),
            _ => panic!("{tensor}"),
        };
        let counts: Vec<&str> = outputs
            .split_whitespace()
            .map(|tensor| tensor.split(':').next().expect("a count"))
            .collect();
        let inputs: Vec<String> = inputs.split_whitespace().map(input).collect();
        let zeros: Vec<String> = counts.iter().map(|count| format!("zeros({count})")).collect();
        let _ = write!(
            text,
            "static void case_{name}(long long* out, float* real) {{ const int R = {rows}, C = {columns}; \
             random_state = 1; const float* const in[] = {{{}}}; float* const results[] = {{{}}}; \
             cudaMemset(out, 0, 4096 * sizeof(long long)); cudaMemset(real, 0, 4096 * sizeof(float)); \
             {name}(in, results, R, C); ",
            inputs.join(", "),
            zeros.join(", ")
        );
        for (output, count) in counts.iter().enumerate() {
            let _ = write!(text, "tell(out, real, {output}, results[{output}], {count}); ");
        }
        text += "}\n";
    }
    text
}

#[test]
fn kernels_as_people_write_them_have_the_bits_of_stacks_in_every_form() {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [262144]\n\
                  [outputs.out]\ndtype = \"i64\"\nshape = [4096]\n\
                  [outputs.real]\ndtype = \"f32\"\nshape = [4096]\n";
    // As much as makes the compiler do its best.
    let large = vec![0.0; 1 << 18];
    let project = Project::new(&cases(), "(long long*)out, real", tables, &large);
    assert!(project.cases().len() >= 42, "{}", project.cases().len());
    assert_same_as_with_stacks(&project);
}
