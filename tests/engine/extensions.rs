//! PyTorch extensions whose own launchers are called, with their checks: `tests/engine/public/tensor_*`.

use replay::frontend::Precision;
use replay::worker::{Ending, Run};

use super::project::elements;
use super::public::{Public, Tensor, assert_close, numbers};

const ROWS: usize = 6;
const COLUMNS: usize = 40;

const LAYER_NORM: &str = "\
[inputs.x]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
[inputs.dy]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
[inputs.weight]\ndtype = \"f32\"\nshape = [\"columns\"]\n\
[inputs.bias]\ndtype = \"f32\"\nshape = [\"columns\"]\n\
[outputs.y]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
[outputs.mean]\ndtype = \"f32\"\nshape = [\"rows\"]\n\
[outputs.dx]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
[outputs.dweight]\ndtype = \"f32\"\nshape = [\"columns\"]\n\
[outputs.dbias]\ndtype = \"f32\"\nshape = [\"columns\"]\n";

fn layer_norm(call: &str, defines: &str) -> Public {
    let (x, dy) = (numbers(ROWS * COLUMNS, 1), numbers(ROWS * COLUMNS, 2));
    let (weight, bias) = (numbers(COLUMNS, 3), numbers(COLUMNS, 4));
    let tensors: [Tensor; 4] = [
        ("x", &x, &[ROWS, COLUMNS]),
        ("dy", &dy, &[ROWS, COLUMNS]),
        ("weight", &weight, &[COLUMNS]),
        ("bias", &bias, &[COLUMNS]),
    ];
    let harness = format!("call = \"\"\"{call}\"\"\"\ndefines = [{defines}]\n{LAYER_NORM}");
    Public::new("tensor_layer_norm", &harness, &tensors)
}

const BOTH: &str = "\
auto made = layer_norm_forward(x, weight, bias, 1e-5);
y, mean, _ = made;
dx, dweight, dbias = layer_norm_backward(dy, x, std::get<1>(made), std::get<2>(made), weight);";

fn widened(values: Vec<f32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

/// `y`, the means, `dx` and `dweight`.
fn expected_layer_norm() -> [Vec<f64>; 4] {
    let (x, dy) = (widened(numbers(ROWS * COLUMNS, 1)), widened(numbers(ROWS * COLUMNS, 2)));
    let (weight, bias) = (widened(numbers(COLUMNS, 3)), widened(numbers(COLUMNS, 4)));
    let (mut y, mut means, mut dx) = (Vec::new(), Vec::new(), Vec::new());
    let mut dweight = vec![0.0; COLUMNS];
    for (x, dy) in x.chunks(COLUMNS).zip(dy.chunks(COLUMNS)) {
        let average = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / COLUMNS as f64;
        let mean = average(&mut x.iter().copied());
        let variance = average(&mut x.iter().map(|x| (x - mean) * (x - mean)));
        let scale = (variance + 1e-5).sqrt().recip();
        let normal: Vec<f64> = x.iter().map(|x| (x - mean) * scale).collect();
        let g: Vec<f64> = dy.iter().zip(&weight).map(|(dy, w)| dy * w).collect();
        let mean_g = average(&mut g.iter().copied());
        let mean_gn = average(&mut g.iter().zip(&normal).map(|(g, n)| g * n));
        for i in 0..COLUMNS {
            y.push(normal[i] * weight[i] + bias[i]);
            dx.push((g[i] - mean_g - normal[i] * mean_gn) * scale);
            dweight[i] += dy[i] * normal[i];
        }
        means.push(mean);
    }
    [y, means, dx, dweight]
}

/// Why the native replay ends.
fn end(run: &Run) -> String {
    match &run.ending {
        Ending::Fault(fault) => format!("{}: {}", fault.what, fault.detail),
        ending => format!("{ending:?}"),
    }
}

#[test]
fn a_layer_norm_gives_its_tensors_to_the_outputs_that_the_call_names() {
    let public = layer_norm(BOTH, "");
    let [y, mean, dx, dweight] = expected_layer_norm();
    public.assert_gives("y", &y, 1e-5);
    public.assert_gives("mean", &mean, 1e-6);
    public.assert_gives("dx", &dx, 1e-5);
    public.assert_gives("dweight", &dweight, 1e-5);
    let checked = public.run(Precision::Checked);
    assert_eq!(checked.findings.found, []);
    assert_close(&elements(&checked, "dx", dx.len()), &dx, 1e-5, "checked");
    let defect = elements(&layer_norm(BOTH, "\"DEFECT\"").run(Precision::Native), "dx", dx.len());
    assert!(defect.iter().zip(&dx).any(|(found, dx)| (found - dx).abs() > 1e-2));
}

#[test]
fn a_launcher_finishes_its_gradient_with_operators_of_pytorch() {
    let (x, dy, weight) =
        (numbers(ROWS * COLUMNS, 1), numbers(ROWS * COLUMNS, 2), numbers(COLUMNS, 3));
    let harness = "call = \"\"\"\
         auto made = rms_norm_forward(x, weight, 1e-5);\n\
         y, _ = made;\n\
         dweight = rms_norm_weight_gradient(dy, x, std::get<1>(made));\n\
         halves, share = rms_norm_report(std::get<0>(made), x);\"\"\"\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
         [inputs.dy]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
         [inputs.weight]\ndtype = \"f32\"\nshape = [\"columns\"]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
         [outputs.dweight]\ndtype = \"f32\"\nshape = [\"columns\"]\n\
         [outputs.halves]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
         [outputs.share]\ndtype = \"f32\"\nshape = []\n";
    let tensors: [Tensor; 3] = [
        ("x", &x, &[ROWS, COLUMNS]),
        ("dy", &dy, &[ROWS, COLUMNS]),
        ("weight", &weight, &[COLUMNS]),
    ];
    let (x, dy, weight) = (widened(x.clone()), widened(dy.clone()), widened(weight.clone()));
    let (mut y, mut halves) = (Vec::new(), Vec::new());
    let (mut dweight, mut share) = (vec![0.0; COLUMNS], 0.0);
    for (x, dy) in x.chunks(COLUMNS).zip(dy.chunks(COLUMNS)) {
        let squares: f64 = x.iter().map(|x| x * x).sum();
        let rstd = (squares / COLUMNS as f64 + 1e-5).sqrt().recip();
        let row: Vec<f64> = x.iter().zip(&weight).map(|(x, w)| x * rstd * w).collect();
        let mean = row.iter().sum::<f64>() / COLUMNS as f64;
        for i in 0..COLUMNS {
            dweight[i] += dy[i] * x[i] * rstd;
            halves.push(1.0 - 0.5 * (row[i] - mean));
            share += (row[i] - mean) * (row[i] - mean) / (ROWS * COLUMNS) as f64;
        }
        y.extend(row);
    }
    let public = Public::new("tensor_sums", harness, &tensors);
    public.assert_gives("y", &y, 1e-5);
    public.assert_gives("dweight", &dweight, 1e-5);
    public.assert_gives("halves", &halves, 1e-5);
    public.assert_gives("share", &[share], 1e-5);
}

#[test]
fn elements_are_chosen_ordered_and_moved_as_pytorch_does() {
    let x = numbers(ROWS * COLUMNS, 1);
    let made = |call: &str| {
        let harness = format!(
            "call = \"\"\"at::Tensor t = x;\n{call}\"\"\"\n\
             [inputs.x]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
             [outputs.y]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n"
        );
        let tensors: [Tensor; 1] = [("x", &x, &[ROWS, COLUMNS])];
        let run = Public::new("tensor_sums", &harness, &tensors).run(Precision::Native);
        elements(&run, "y", ROWS * COLUMNS)
    };
    let wanted: Vec<f32> = x.iter().map(|x| if *x > 0.5 { -1.0 } else { x.exp() }).collect();
    let masked = made("y = torch::where(t > 0.5, -1, t.exp());");
    assert_close(&masked, &widened(wanted), 1e-6, "where");
    let strided = "at::Tensor s = torch::transpose(t, 0, 1).contiguous();\n\
                   s.t().masked_fill_(t.abs().lt(0.25), 2);\ny = s.t();";
    let wanted = x.iter().map(|x| if x.abs() < 0.25 { 2.0 } else { *x }).collect();
    assert_close(&made(strided), &widened(wanted), 0.0, "masked_fill_ of a strided tensor");
    let mut descending: Vec<f32> = Vec::new();
    let mut sums: Vec<f32> = Vec::new();
    for row in x.chunks(COLUMNS) {
        let mut row = row.to_vec();
        row.sort_by(|a, b| b.total_cmp(a));
        descending.extend(&row);
        sums.extend(row.iter().scan(0.0, |sum, x| {
            *sum += x;
            Some(*sum)
        }));
    }
    let ordered = made("at::Tensor order = t.argsort(1, true);\ny = t.gather(1, order);");
    assert_close(&ordered, &widened(descending), 0.0, "gather in order");
    let summed =
        made("auto sorted = torch::sort(t, -1, true);\ny = std::get<0>(sorted).cumsum(1);");
    assert_close(&summed, &widened(sums), 1e-5, "cumsum");
    let reversed = "at::Tensor backwards = torch::arange(5, -1, -1, torch::kInt);\n\
                    y = torch::stack(t.index_select(0, backwards).unbind(0));";
    let wanted: Vec<f32> = x.chunks(COLUMNS).rev().flatten().copied().collect();
    assert_close(&made(reversed), &widened(wanted.clone()), 0.0, "rows in reverse");
    let indexed = "at::Tensor backwards = torch::arange(5, -1, -1);\n\
                   y = t.index({backwards.view({2, 3})}).view({6, 40});";
    assert_close(&made(indexed), &widened(wanted.clone()), 0.0, "rows by index");
    let ranged = "at::Tensor backwards = torch::range(5, 0, -1, torch::kInt);\n\
                  y = t.index_select(0, backwards) + (torch::range(0, 1, 0.25).numel() - 5);";
    assert_close(&made(ranged), &widened(wanted), 0.0, "rows by a range with its end");
    let masked_rows = "at::Tensor odd = torch::arange(6).eq(1) + torch::arange(6).eq(4);\n\
                       y = torch::cat({t.index({odd.gt(0)}), t.slice(0, 2)}, 0);";
    let wanted = [1, 4, 2, 3, 4, 5].map(|row| x[row * COLUMNS..(row + 1) * COLUMNS].to_vec());
    assert_close(&made(masked_rows), &widened(wanted.concat()), 0.0, "rows by mask");
}

#[test]
fn sources_for_old_releases_of_pytorch_have_the_helpers_of_thc() {
    let x = numbers(ROWS * COLUMNS, 1);
    let call = "at::Tensor t = x;\n\
                THCState* state = at::globalContext().lazyInitCUDA();\n\
                void* memory = THCudaMalloc(state, 64);\n\
                THCudaCheck(cudaMemset(memory, 0, 64));\n\
                THCudaFree(state, memory);\n\
                y = t * (THCCeilDiv((long)t.numel(), 512L) + THCRoundUp(9, 8));";
    let harness = format!(
        "call = \"\"\"{call}\"\"\"\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n"
    );
    let tensors: [Tensor; 1] = [("x", &x, &[ROWS, COLUMNS])];
    let public = Public::new("tensor_sums", &harness, &tensors);
    let wanted: Vec<f64> = x.iter().map(|x| f64::from(*x) * 17.0).collect();
    public.assert_gives("y", &wanted, 1e-6);
}

#[test]
fn an_operation_on_tensors_that_fails_names_the_line_that_calls_it() {
    let x = numbers(ROWS * COLUMNS, 1);
    let ended = |call: &str| {
        let harness = format!(
            "call = \"\"\"{call}\"\"\"\n\
             [inputs.x]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
             [outputs.halves]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n"
        );
        let tensors: [Tensor; 1] = [("x", &x, &[ROWS, COLUMNS])];
        end(&Public::new("tensor_sums", &harness, &tensors).run(Precision::Native))
    };
    let report =
        |y: &str| ended(&format!("at::Tensor t = x;\nhalves, _ = rms_norm_report({y}, x);"));
    insta::assert_snapshot!(report("t.sum()"), @"host code stopped itself: Dimension out of range (expected to be in range of [-1, 0], but got 1) at src/rms_norm.cu:55");
    insta::assert_snapshot!(report("at::Tensor()"), @"host code stopped itself: an undefined tensor is used at src/rms_norm.cu:54");
    let call = |what: &str| ended(&format!("at::Tensor t = x;\nhalves = {what};"));
    insta::assert_snapshot!(call("t + t.slice(1, 3)"), @"host code stopped itself: The size of tensor a (40) must match the size of tensor b (37) at non-singleton dimension 1 at call in replay.toml:4");
    insta::assert_snapshot!(call("t[6]"), @"host code stopped itself: select(): index 6 out of range for tensor of size [6, 40] at dimension 0 at call in replay.toml:4");
    insta::assert_snapshot!(call("t.mm(t)"), @"host code stopped itself: mat1 and mat2 shapes cannot be multiplied ([6, 40] and [6, 40]) at call in replay.toml:4");
    insta::assert_snapshot!(call("torch::cat({t, t[0]}, 1)"), @"host code stopped itself: Sizes of tensors must match except in dimension 1 at call in replay.toml:4");
    insta::assert_snapshot!(call("t.masked_fill(t, 0)"), @"host code stopped itself: masked_fill_ only supports boolean masks, but got mask with dtype Float at call in replay.toml:4");
    insta::assert_snapshot!(call("t.index_select(0, torch::arange(7))"), @"host code stopped itself: index_select(): index 6 is out of bounds for dimension with size 6 at call in replay.toml:4");
    insta::assert_snapshot!(call("t.gather(0, torch::arange(6))"), @"host code stopped itself: gather(): Index tensor must have the same number of dimensions as input tensor at call in replay.toml:4");
    insta::assert_snapshot!(call("t.t()\n  .view({240})"), @"host code stopped itself: view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead. at call in replay.toml:5");
}

#[test]
fn a_failed_check_of_a_launcher_ends_the_replay_with_its_message() {
    let ended = |call: &str| end(&layer_norm(call, "").run(Precision::Native));
    insta::assert_snapshot!(ended("y, mean, _ = layer_norm_forward(x, at::Tensor(weight).slice(0, 1), bias, 1e-5);"), @"host code stopped itself: weight has 39 elements, rows have 40 at src/layer_norm_cuda.cu:109");
    insta::assert_snapshot!(ended("y, mean, _ = layer_norm_forward(x, weight, bias, 1e-5);\nlayer_norm_backward(at::Tensor(dy).to(at::kHalf), x, mean, mean, weight);"), @"host code stopped itself: expected scalar type Float but found Half at src/layer_norm_cuda.cu:140");
    insta::assert_snapshot!(ended("y, mean = layer_norm_forward(x, weight, bias, 1e-5);"), @"the call does not fit: the call gives 3 results for 2 names: `a, _, b = f(...)` says which is which");
    insta::assert_snapshot!(ended("_, y, mean = layer_norm_forward(x, weight, bias, 1e-5);"), @"the call does not fit: the call gives Float [6] for the output `y`, in the harness Float [6, 40]");
    insta::assert_snapshot!(ended("y, mean, _ = layer_norm_forward(x + 4, weight, bias, 1e-5);"), @"the call does not fit: no tensor of the harness begins at a pointer that is passed as one: torch::from_blob names its sizes");
}

const POINTS: [f32; 12] = [3.0, 2.0, 0.5, 10.5, 1.0, 0.75, 12.0, 3.0, 1.0, 18.0, 1.5, 0.25];
const PIXELS: usize = 20;

fn splat(call: &str, tensors: &[Tensor]) -> Public {
    let harness = format!(
        "call = \"{call}\"\n\
         [inputs.points]\ndtype = \"f32\"\nshape = [\"n\", 3]\n\
         [inputs.colors]\ndtype = \"f32\"\nshape = [\"n\", 1]\noptional = true\n\
         [inputs.flags]\ndtype = \"f32\"\nshape = [\"n\"]\noptional = true\n\
         [outputs.image]\ndtype = \"f32\"\nshape = [{PIXELS}, 1]\n\
         [outputs.counts]\ndtype = \"i32\"\nshape = [{PIXELS}]\n\
         [outputs.drawn]\ndtype = \"i32\"\nshape = []\n"
    );
    Public::new("tensor_splat", &harness, tensors)
}

fn expected_image(colors: &[f64], mask: &[f64]) -> Vec<f64> {
    let points = widened(POINTS.to_vec());
    let pixel = |pixel: usize| {
        let bells = points.chunks(3).zip(colors).zip(mask).map(|((point, color), mask)| {
            let z = (pixel as f64 - point[0]) / point[1];
            let bell = point[2] * (-z * z / 2.0).exp();
            if bell < 1e-6 { 0.0 } else { bell * color * mask }
        });
        bells.sum()
    };
    (0..PIXELS).map(pixel).collect()
}

#[test]
fn an_absent_tensor_is_none_and_a_tuple_may_hold_numbers() {
    let points: Tensor = ("points", &POINTS, &[4, 3]);
    let absent = splat("splat::draw(points, colors, std::nullopt, 20)", &[points]);
    absent.assert_gives("image", &expected_image(&[1.0; 4], &[1.0; 4]), 1e-5);
    absent.assert_gives("drawn", &[20.0], 0.0);
    let colors: Tensor = ("colors", &[1.0, 0.5, 2.0, 0.25], &[4, 1]);
    let flags: Tensor = ("flags", &[1.0, 0.0, 1.0, 1.0], &[4]);
    let call =
        "image, counts, drawn = splat::draw(points, colors, at::Tensor(flags).to(at::kBool), 20);";
    let image = expected_image(&[1.0, 0.5, 2.0, 0.25], &[1.0, 0.0, 1.0, 1.0]);
    let public = splat(call, &[points, colors, flags]);
    public.assert_gives("image", &image, 1e-5);
    let checked = public.run(Precision::Checked);
    assert_eq!(checked.findings.found, []);
    // A mask of another type, and colours in the place of points.
    let ended = |call: &str| end(&splat(call, &[points, colors, flags]).run(Precision::Native));
    insta::assert_snapshot!(ended("splat::draw(points, colors, flags, n)"), @"host code stopped itself: mask must be bool at src/splat.cu:48");
    insta::assert_snapshot!(ended("splat::draw(colors, points, std::nullopt, n)"), @"host code stopped itself: points must be [N, 3], got [4, 1] at src/splat.cu:42");
}

fn activation(call: &str, defines: &str) -> Public {
    let values = numbers(5 * 8, 6);
    let harness = format!(
        "call = \"{call}\"\ndefines = [{defines}]\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"rows\", \"columns\"]\n\
         [outputs.out]\ndtype = \"f32\"\nshape = [\"rows\", 2, 4]\n"
    );
    Public::new("tensor_activation", &harness, &[("x", &values, &[5, 8])])
}

#[test]
fn views_are_written_in_place_and_a_result_keeps_its_strides() {
    let call = "leaky_halves(x, 0.25, true)";
    let leaky = |x: &f32| {
        let x = f64::from(*x);
        let y = if x < 0.0 { 0.25 * x } else { x };
        y * y
    };
    let expected: Vec<f64> = numbers(5 * 8, 6).iter().map(leaky).collect();
    let public = activation(call, "");
    public.assert_gives("out", &expected, 1e-6);
    assert_eq!(public.run(Precision::Checked).findings.found, []);
    let defect = elements(&activation(call, "\"DEFECT\"").run(Precision::Native), "out", 40);
    assert!(defect.iter().zip(&expected).any(|(found, wanted)| (found - wanted).abs() > 1e-2));
    let half = "out = leaky_halves(at::Tensor(x).to(torch::kHalf), 0.25).to(torch::kFloat);";
    let expected: Vec<f64> = numbers(5 * 8, 6)
        .iter()
        .map(|x| if *x < 0.0 { 0.25 * f64::from(*x) } else { f64::from(*x) })
        .collect();
    let native = elements(&activation(half, "").run(Precision::Native), "out", 40);
    assert_close(&native, &expected, 1e-3, "half");
    // The harness passes an object where a function takes `Tensor&`.
    let in_place = "auto config = c10::make_intrusive<ActivationConfig>(0.25); \
                    leaky_out(out, at::Tensor(x).view({rows, 2, 4}), config);";
    let written = elements(&activation(in_place, "").run(Precision::Native), "out", 40);
    assert_close(&written, &expected, 1e-6, "in place");
    let wrong = activation("out = leaky_halves(at::Tensor(x).to(torch::kHalf), 0.25);", "");
    insta::assert_snapshot!(end(&wrong.run(Precision::Native)), @"the call does not fit: the call gives Half [5, 2, 4] for the output `out`, in the harness Float [5, 2, 4]");
    let strided = activation("leaky_halves(at::Tensor(x).t(), 0.25)", "");
    insta::assert_snapshot!(end(&strided.run(Precision::Native)), @"host code stopped itself: an even number of columns is needed, not 5 at src/activation.cu:45");
    let uncounted = activation("leaky_halves(at::Tensor(x).slice(1, 1), 0.25)", "");
    insta::assert_snapshot!(end(&uncounted.run(Precision::Native)), @"host code stopped itself: an even number of columns is needed, not 7 at src/activation.cu:45");
}
