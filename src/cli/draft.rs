//! Drafts a `replay.toml` from the functions of a CUDA source. Pure: text in, text out. What a
//! signature cannot tell is guessed and marked.

use std::fmt::Write;

use ::replay::frontend::{Parameter, Signature};
use ::replay::tensor::DType;
use indexmap::IndexMap;

/// The mark behind every guess.
pub const MARK: &str = "# EDIT";

/// The content of one `replay.toml`.
#[derive(Debug, Default)]
pub struct Draft {
    /// Sizes that the functions take, in the order in which they take them.
    sizes: Vec<String>,
    /// Tensors and scalars that are read.
    pub inputs: IndexMap<String, Tensor>,
    /// Tensors and scalars that are written.
    pub outputs: IndexMap<String, Tensor>,
    /// One statement for each function.
    pub calls: Vec<String>,
    /// The functions that are called.
    pub functions: Vec<String>,
    /// Why they are not called together with those of the previous draft.
    pub apart: Option<String>,
    /// Which function named a size, an input or an output first.
    owners: IndexMap<String, String>,
}

/// A tensor, as far as a parameter tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// None where the type's name is the project's own.
    dtype: Option<DType>,
    scalar: bool,
}

/// The role of a parameter in a harness.
enum Role {
    Size,
    Input(Tensor),
    Output(Tensor),
    /// A literal in the call, which no fixture holds.
    Literal(&'static str),
}

impl Draft {
    /// Drafts that call every one of `functions`; those that use names alike share a draft.
    pub fn all(functions: &[&Signature]) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::new();
        for function in functions {
            let mut clash = None;
            let taken = drafts.iter_mut().any(|draft| match draft.add(function) {
                Ok(()) => true,
                Err(why) => {
                    clash.get_or_insert(why);
                    false
                }
            });
            if !taken {
                let mut draft = Draft { apart: clash, ..Draft::default() };
                // Parameters of one function have different names.
                let _ = draft.add(function);
                drafts.push(draft);
            }
        }
        drafts
    }

    /// Calls `function` too, or says which of its names stands for something else already.
    fn add(&mut self, function: &Signature) -> Result<(), String> {
        let roles: Vec<Role> = function.parameters.iter().map(role).collect();
        let names: Vec<String> = function.parameters.iter().enumerate().map(name).collect();
        for (name, role) in names.iter().zip(&roles) {
            self.check(name, role, &function.name)?;
        }
        let mut arguments = Vec::new();
        for (name, role) in names.into_iter().zip(roles) {
            arguments.push(if let Role::Literal(text) = role {
                text.to_owned()
            } else {
                self.owners.entry(name.clone()).or_insert_with(|| function.name.clone());
                name.clone()
            });
            match role {
                Role::Size if !self.sizes.contains(&name) => self.sizes.push(name),
                Role::Input(tensor) => _ = self.inputs.insert(name, tensor),
                Role::Output(tensor) => _ = self.outputs.insert(name, tensor),
                Role::Size | Role::Literal(_) => {}
            }
        }
        let result = self.result(function);
        self.calls.push(statement(function, &arguments.join(", "), result.as_deref()));
        self.functions.push(function.name.clone());
        Ok(())
    }

    /// Refuses `name` if it stands for something else than `role` in `function`.
    fn check(&self, name: &str, role: &Role, function: &str) -> Result<(), String> {
        let (input, output) = (self.inputs.get(name), self.outputs.get(name));
        let size = self.sizes.iter().any(|size| size == name);
        let known = match (size, input, output) {
            (true, ..) => "a size",
            (_, Some(_), _) => "an input",
            (_, _, Some(_)) => "an output",
            _ => return Ok(()),
        };
        let (own, same) = match role {
            Role::Size => ("a size", size),
            Role::Input(tensor) => ("an input", input == Some(tensor)),
            Role::Output(tensor) => ("an output", output == Some(tensor)),
            Role::Literal(_) => return Ok(()),
        };
        if same {
            return Ok(());
        }
        let owner = self.owners.get(name).map_or("another function", String::as_str);
        let of = if own == known { " of another type" } else { "" };
        Err(format!("`{name}` is {known} of {owner} and {own}{of} of {function}"))
    }

    /// The output that takes what `function` returns.
    fn result(&mut self, function: &Signature) -> Option<String> {
        let dtype = dtype_of(&function.returns).filter(|dtype| dtype.is_float())?;
        let name = if function.name.contains("loss") { "loss" } else { &function.name };
        let name = if self.inputs.contains_key(name) || name == function.name {
            format!("{name}_result")
        } else {
            name.to_owned()
        };
        self.outputs.insert(name.clone(), Tensor { dtype: Some(dtype), scalar: true });
        Some(name)
    }

    /// The text of `replay.toml`.
    pub fn text(&self, source: &str, include: &[String]) -> String {
        let mut text = format!(
            "# How to call the kernels of {source}, whatever the revision. A draft by `replay init`:\n\
             # what is marked EDIT was guessed from names and has to be checked.\n\
             sources = [{}]\n\
             include = [{}]\n\
             call = \"\"\"\n",
            quoted(source),
            include.iter().map(|folder| quoted(folder)).collect::<Vec<_>>().join(", ")
        );
        for call in &self.calls {
            let _ = writeln!(text, "{call}");
        }
        text.push_str("\"\"\"\n");
        for (name, tensor) in &self.inputs {
            self.table(&mut text, "inputs", name, tensor);
            if name.contains("mask") && !tensor.scalar {
                let _ = writeln!(text, "optional = true {MARK}: may `call` take a null pointer?");
            }
        }
        // A returned scalar comes first, for the others are its gradients.
        let (scalars, arrays): (Vec<_>, Vec<_>) =
            self.outputs.iter().partition(|(_, tensor)| tensor.scalar);
        for (name, tensor) in scalars.into_iter().chain(arrays) {
            self.table(&mut text, "outputs", name, tensor);
            if let Some(of) = self.gradient_of(name, tensor) {
                let _ = writeln!(text, "gradient_of = {of:?} {MARK}");
            }
        }
        text
    }

    fn table(&self, text: &mut String, kind: &str, name: &str, tensor: &Tensor) {
        let dtype = tensor.dtype.unwrap_or(DType::F32).name();
        let guessed =
            if tensor.dtype.is_none() { " # EDIT: a type of the project's own" } else { "" };
        let _ = writeln!(text, "\n[{kind}.{name}]\ndtype = {dtype:?}{guessed}");
        let mark = if tensor.scalar { String::new() } else { format!(" {MARK}") };
        let _ = writeln!(text, "shape = {:?}{mark}", self.shape(name, tensor));
    }

    /// All sizes for floats, all but the last for integers, as a loss takes them.
    fn shape(&self, name: &str, tensor: &Tensor) -> Vec<&str> {
        if tensor.scalar {
            return Vec::new();
        }
        let sizes: Vec<&str> = self.sizes.iter().map(String::as_str).collect();
        let of = self.gradient_of(name, tensor).and_then(|of| self.inputs.get(of));
        let float = of.unwrap_or(tensor).dtype.is_none_or(DType::is_float);
        let floats = |tensor: &Tensor| !tensor.scalar && tensor.dtype.is_none_or(DType::is_float);
        match sizes.split_last() {
            None => vec!["n"],
            Some((_, outer)) if !float && !outer.is_empty() && self.inputs.values().any(floats) => {
                outer.to_vec()
            }
            Some(_) => sizes,
        }
    }

    /// `logits` for `grad_logits`, `dlogits` and the like.
    fn gradient_of(&self, name: &str, tensor: &Tensor) -> Option<&str> {
        let bare = ["grad_", "d_", "d"].iter().filter_map(|prefix| name.strip_prefix(prefix));
        let mut bare = bare.chain(name.strip_suffix("_grad"));
        bare.find_map(|bare| {
            let (of, input) = self.inputs.get_key_value(bare)?;
            (input == tensor && !input.scalar && input.dtype.is_none_or(DType::is_float))
                .then_some(of.as_str())
        })
    }
}

/// `text` as a string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn name((place, parameter): (usize, &Parameter)) -> String {
    match parameter.name.as_str() {
        "" => format!("argument_{place}"),
        name => name.to_owned(),
    }
}

fn role(parameter: &Parameter) -> Role {
    let words: Vec<&str> = parameter.ty.split(' ').collect();
    let element = words.iter().filter(|word| !matches!(**word, "const" | "*" | "&" | "struct"));
    let element = element.copied().collect::<Vec<_>>().join(" ");
    let dtype = dtype_of(&element);
    match words.iter().filter(|&&word| word == "*").count() {
        1 if words[0] == "const" => Role::Input(Tensor { dtype, scalar: false }),
        1 => Role::Output(Tensor { dtype, scalar: false }),
        0 => match dtype {
            Some(DType::Bool) => Role::Input(Tensor { dtype, scalar: true }),
            Some(dtype) if !dtype.is_float() => Role::Size,
            Some(_) => Role::Input(Tensor { dtype, scalar: true }),
            None if element == "cudaStream_t" => Role::Literal("0"),
            None => Role::Literal("{}"),
        },
        _ => Role::Literal("nullptr"),
    }
}

fn dtype_of(words: &str) -> Option<DType> {
    Some(match words {
        "float" => DType::F32,
        "double" => DType::F64,
        "__half" | "half" => DType::F16,
        "__nv_bfloat16" | "nv_bfloat16" => DType::BF16,
        "int64_t" | "long" | "long int" | "long long" | "long long int" | "ptrdiff_t" => DType::I64,
        "int" | "int32_t" => DType::I32,
        "short" | "int16_t" => DType::I16,
        "signed char" | "int8_t" => DType::I8,
        "uint64_t" | "size_t" | "unsigned long" | "unsigned long long" => DType::U64,
        "unsigned" | "unsigned int" | "uint32_t" => DType::U32,
        "unsigned short" | "uint16_t" => DType::U16,
        "unsigned char" | "uint8_t" => DType::U8,
        "bool" => DType::Bool,
        _ => return None,
    })
}

fn statement(function: &Signature, arguments: &str, result: Option<&str>) -> String {
    let assigned = result.map_or(String::new(), |name| format!("{name} = "));
    let template = if function.template { "/* EDIT: template arguments */" } else { "" };
    let name = &function.name;
    if function.kernel {
        let grid =
            function.parameters.iter().find(|parameter| matches!(role(parameter), Role::Size));
        let grid = grid.map_or("1".to_owned(), |size| format!("({} + 255) / 256", size.name));
        return format!("{name}{template}<<<{grid}, 256>>>({arguments}); // EDIT: grid, block");
    }
    format!("{assigned}{name}{template}({arguments});")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ::replay::frontend::{Unit, scan, signatures};
    use ::replay::harness::Harness;

    use super::*;

    fn draft(text: &str) -> String {
        let unit = Unit { path: "k.cu", text };
        let found = signatures(&unit, &scan(&[unit]));
        let drafts = Draft::all(&found.iter().collect::<Vec<_>>());
        let texts = drafts.iter().map(|draft| {
            let text = draft.text("k.cu", &[]);
            Harness::parse(&text, Path::new("replay.toml")).unwrap();
            let apart = draft.apart.as_ref().map_or(String::new(), |why| format!("{why}\n"));
            apart + &text
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_kernel_without_a_host_function_is_launched() {
        insta::assert_snapshot!(draft(
            "__global__ void scale(const __nv_bfloat16* x, float *out, float by, size_t n) {}"
        ), @r#"
        # How to call the kernels of k.cu, whatever the revision. A draft by `replay init`:
        # what is marked EDIT was guessed from names and has to be checked.
        sources = ["k.cu"]
        include = []
        call = """
        scale<<<(n + 255) / 256, 256>>>(x, out, by, n); // EDIT: grid, block
        """

        [inputs.x]
        dtype = "bf16"
        shape = ["n"] # EDIT

        [inputs.by]
        dtype = "f32"
        shape = []

        [outputs.out]
        dtype = "f32"
        shape = ["n"] # EDIT
        "#);
    }

    #[test]
    fn types_of_the_projects_own_are_marked_and_gradients_recognised() {
        insta::assert_snapshot!(draft(
            "template <typename T> __global__ void k(T* y) {}\n\
             void backward(floatX* dq, const floatX* q, const int *index, int rows, int cols,\n\
                           cudaStream_t stream, Config config) { k<<<1, 1>>>(dq); }"
        ).lines().skip(4).collect::<Vec<_>>().join("\n"), @r#"
        call = """
        k/* EDIT: template arguments */<<<1, 256>>>(y); // EDIT: grid, block
        backward(dq, q, index, rows, cols, 0, {});
        """

        [inputs.q]
        dtype = "f32" # EDIT: a type of the project's own
        shape = ["rows", "cols"] # EDIT

        [inputs.index]
        dtype = "i32"
        shape = ["rows"] # EDIT

        [outputs.y]
        dtype = "f32" # EDIT: a type of the project's own
        shape = ["rows", "cols"] # EDIT

        [outputs.dq]
        dtype = "f32" # EDIT: a type of the project's own
        shape = ["rows", "cols"] # EDIT
        gradient_of = "q" # EDIT
        "#);
    }

    #[test]
    fn what_is_an_output_of_one_function_and_an_input_of_another_is_called_apart() {
        let text = draft(
            "__global__ void k(float* y) {}\n\
             void forward(const float* x, float* rms, int n) { k<<<1, 1>>>(rms); }\n\
             void backward(const float* rms, float* dx, int n) { k<<<1, 1>>>(dx); }\n",
        );
        let kept =
            |line: &&str| ["`", "forward", "backward", "["].iter().any(|w| line.starts_with(w));
        insta::assert_snapshot!(text.lines().filter(kept).collect::<Vec<_>>().join("\n"), @"
        forward(x, rms, n);
        [inputs.x]
        [outputs.y]
        [outputs.rms]
        `rms` is an output of forward and an input of backward
        backward(rms, dx, n);
        [inputs.rms]
        [outputs.dx]
        ");
    }

    #[test]
    fn a_name_of_another_type_is_said_to_be_one() {
        let text = draft(
            "__global__ void k(float* y) {}\n\
             void one(const float* x, float* y, int n) { k<<<1, 1>>>(y); }\n\
             void two(const int* x, float* y, int n) { k<<<1, 1>>>(y); }\n\
             void three(const float* w, float* z, int y) { k<<<1, 1>>>(z); }\n",
        );
        let kept = |line: &&str| line.starts_with('`');
        insta::assert_snapshot!(text.lines().filter(kept).collect::<Vec<_>>().join("\n"), @"
        `x` is an input of one and an input of another type of two
        `y` is an output of k and a size of three
        ");
    }

    #[test]
    fn a_path_is_quoted_as_toml_has_it() {
        assert_eq!(quoted("a\"b\u{1}"), r#""a\"b\u0001""#);
    }
}
