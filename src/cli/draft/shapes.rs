//! The shape that a tensor's name suggests, among the sizes that its function takes.

/// What a size counts, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Batch,
    Time,
    Heads,
    HeadSize,
    Vocabulary,
    Outputs,
    Channels,
    Other,
}

/// The function whose parameters are to have shapes.
pub struct Scene<'a> {
    /// The sizes that it takes, in order.
    pub sizes: &'a [String],
    /// Its name.
    pub function: &'a str,
    /// The names of the tensors that it takes.
    pub tensors: &'a [String],
}

/// A shape, and whether the names leave little doubt.
pub type Guess = (Vec<String>, bool);

const ROWS: &[&str] = &[
    "mean",
    "rstd",
    "rms",
    "inv_rms",
    "lse",
    "loss",
    "losses",
    "target",
    "targets",
    "label",
    "labels",
    "tokens",
    "ids",
    "idx",
    "index",
    "indices",
    "maxval",
    "sumval",
    "row_max",
    "row_sum",
    "logsumexp",
    "amax",
    "scales",
    "inv_std",
    "var",
    "variance",
    "positions",
    "dlosses",
    "lengths",
];
const ACTIVATIONS: &[&str] = &[
    "inp", "input", "x", "out", "output", "y", "residual", "res", "a", "b", "src", "dst", "in",
    "gate", "up", "hidden", "z", "normed", "resid",
];
const WEIGHTS: &[&str] = &["weight", "w", "gamma", "wgt", "weights", "g", "scale"];
const BIASES: &[&str] = &["bias", "beta", "shift"];

impl Scene<'_> {
    /// The shape of the tensor `name`; `output` tells that the function writes it, `float` its kind.
    pub fn shape(&self, name: &str, float: bool, output: bool) -> Guess {
        let base = self.base(name);
        let is = |names: &[&str]| names.contains(&base.as_str());
        if self.sizes.is_empty() {
            return (vec!["n".to_owned()], false);
        }
        if let [only] = self.sizes {
            return (vec![only.clone()], !output || is(ACTIVATIONS));
        }
        if let Some(found) = self.matrix(&base).or_else(|| self.attention(&base)) {
            return (found, true);
        }
        if is(ROWS) {
            return (self.rows(), true);
        }
        // A function that writes something called `weights` need not update parameters.
        let result = output && base == name.to_lowercase();
        if let Some(found) = self.parameter(&base).filter(|_| !result) {
            return found;
        }
        if let Some(found) = self.heads() {
            return (found, is(ACTIVATIONS) || is(&["q", "k", "v", "o"]));
        }
        if base.contains("logit") || base.contains("prob") {
            let mut shape = self.rows();
            shape.extend(self.last(Counts::Vocabulary).or_else(|| self.sizes.last().cloned()));
            return (shape, true);
        }
        if !float {
            return (self.rows(), is(ACTIVATIONS));
        }
        let mut shape = self.activation(&base, output);
        // A gate and what passes it lie beside each other.
        let gated = ["glu", "and_mul"].iter().any(|word| self.function.contains(word));
        let halves = ["gate_up", "gate_and_up", "gate_up_proj"].contains(&base.as_str());
        let alone = self.tensors.len() == 2 && !output;
        if (halves || gated && alone) && !shape.is_empty() {
            shape.insert(shape.len() - 1, "2".to_owned());
        }
        // These make fewer elements than they take.
        let fewer = ["pool", "conv", "reduce", "sum", "norm", "max", "min", "mean", "dot"];
        let fewer = !self.function.contains("forward")
            && fewer.iter().any(|word| self.function.contains(word));
        (shape, is(ACTIVATIONS) && !(output && fewer && base != "inp"))
    }

    /// Whether functions write only a part of what has `shape`, as a rule: the triangle of scores that causal
    /// attention uses, rows without their padding.
    pub fn leaves_gaps(&self, shape: &[String]) -> bool {
        let has = |name: &str| self.sizes.iter().any(|size| size == name);
        let padded = |size: &String| matches!(size.as_str(), "P" | "Vp" | "padded_vocab");
        let rows = has("V") || has("vocab") || has("vocab_size");
        shape.windows(2).any(|pair| pair[0] == pair[1]) || rows && shape.last().is_some_and(padded)
    }

    /// `name` without what marks a gradient or a copy: `inp` for `dinp1`.
    fn base(&self, name: &str) -> String {
        let lower = name.trim_end_matches('_').to_lowercase();
        let lower = lower.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
        let lower = lower.strip_suffix("_grad").unwrap_or(lower);
        let lower = lower.strip_suffix("_ptr").unwrap_or(lower);
        for prefix in ["grad_", "d_", "g_", "h_"] {
            if let Some(rest) = lower.strip_prefix(prefix).filter(|rest| !rest.is_empty()) {
                return rest.to_owned();
            }
        }
        let known = |rest: &str| {
            let lists = [ROWS, ACTIVATIONS, WEIGHTS, BIASES];
            let words =
                ["q", "k", "v", "o", "qkv", "qkvr", "att", "preatt", "logits", "wte", "wpe"];
            lists.iter().any(|list| list.contains(&rest))
                || words.contains(&rest)
                || self.tensors.iter().any(|other| other.to_lowercase() == rest)
        };
        match lower.strip_prefix('d').filter(|rest| known(rest)) {
            Some(rest) => rest.to_owned(),
            None => lower.to_owned(),
        }
    }

    fn counts(&self, size: &str) -> Counts {
        let has = |names: &[&str]| self.sizes.iter().any(|other| names.contains(&other.as_str()));
        match size {
            "B" | "batch" | "batch_size" | "bsz" | "bs" => Counts::Batch,
            "T" | "S" | "L" | "seq" | "seq_len" | "seqlen" | "length" | "time" => Counts::Time,
            "H" if has(&["D", "HS", "hs", "d"]) => Counts::Heads,
            "NH" | "nh" | "heads" | "n_heads" | "num_heads" | "n_head" | "nheads" => Counts::Heads,
            "D" if has(&["H", "NH", "nh"]) => Counts::HeadSize,
            "HS" | "hs" | "head_size" | "head_dim" | "d_head" | "hd" => Counts::HeadSize,
            // The vocabulary with the padding of a row.
            "P" if has(&["V"]) => Counts::Vocabulary,
            "V" | "Vp" | "vocab" | "vocab_size" | "classes" | "num_classes" | "padded_vocab" => {
                Counts::Vocabulary
            }
            "OC" | "oc" | "out_features" | "d_ff" | "out_channels" | "out_dim" => Counts::Outputs,
            "C" | "D" | "H" | "hidden" | "hidden_size" | "dim" | "cols" | "n_cols" | "ncols"
            | "channels" | "features" | "in_features" | "d_model" | "n_embd" | "in_channels"
            | "num_cols" | "width" | "emb_dim" | "hidden_dim" | "columns" => Counts::Channels,
            _ => Counts::Other,
        }
    }

    fn last(&self, what: Counts) -> Option<String> {
        self.sizes.iter().rev().find(|size| self.counts(size) == what).cloned()
    }

    /// The sizes that count what `keep` says.
    fn keep(&self, keep: impl Fn(Counts) -> bool) -> Vec<String> {
        self.sizes.iter().filter(|size| keep(self.counts(size))).cloned().collect()
    }

    /// All sizes but those of a row.
    fn rows(&self) -> Vec<String> {
        use Counts as K;
        let of_a_row = |counts| {
            matches!(counts, K::Channels | K::Vocabulary | K::Outputs | K::HeadSize | K::Heads)
        };
        let rows = self.keep(|counts| !of_a_row(counts));
        let all = self.sizes.len();
        match rows.len() {
            0 => self.sizes[..all - 1].to_vec(),
            count if count == all => self.sizes[..all - 1].to_vec(),
            _ => rows,
        }
    }

    /// Matrices of a product of M x K and K x N.
    fn matrix(&self, base: &str) -> Option<Vec<String>> {
        let size =
            |name: &str| self.sizes.iter().find(|size| size.eq_ignore_ascii_case(name)).cloned();
        let (m, n, k) = (size("M")?, size("N")?, size("K")?);
        let of_one = match base {
            "a" | "x" | "inp" | "input" | "lhs" | "left" => vec![m, k],
            "b" | "w" | "weight" | "rhs" | "right" => vec![k, n],
            "bias" => return Some(vec![n]),
            _ => vec![m, n],
        };
        let batch = self.keep(|counts| counts == Counts::Batch);
        Some([batch, of_one].concat())
    }

    /// Tensors of attention, where heads are counted.
    fn attention(&self, base: &str) -> Option<Vec<String>> {
        use Counts as K;
        let heads = self.last(K::Heads)?;
        let outer = self.keep(|counts| matches!(counts, K::Batch | K::Other));
        let time = self.last(K::Time);
        let channels = self.last(K::Channels);
        let with = |tail: Vec<String>| [outer.clone(), tail].concat();
        let packed = ["attention", "qkv", "permute", "attn"];
        let of_all = packed.iter().any(|word| self.function.contains(word));
        match (base, time, channels, self.last(K::HeadSize)) {
            ("att" | "preatt" | "attn" | "scores" | "p" | "s", Some(time), ..) => {
                Some(with(vec![heads, time.clone(), time]))
            }
            ("lse" | "l" | "m" | "delta", Some(time), ..) => Some(with(vec![heads, time])),
            ("qkv" | "qkvr", Some(time), Some(channels), _) => {
                Some(with(vec![time, "3".to_owned(), channels]))
            }
            ("inp", Some(time), Some(channels), _) if of_all => {
                Some(with(vec![time, "3".to_owned(), channels]))
            }
            ("inp", Some(time), None, Some(size)) if of_all => {
                Some(with(vec![time, "3".to_owned(), heads, size]))
            }
            _ => None,
        }
    }

    /// A tensor with all heads.
    fn heads(&self) -> Option<Vec<String>> {
        use Counts as K;
        let (heads, time) = (self.last(K::Heads)?, self.last(K::Time)?);
        let mut shape = self.keep(|counts| matches!(counts, K::Batch | K::Other));
        match (self.last(K::Channels), self.last(K::HeadSize)) {
            (Some(channels), _) => shape.extend([time, channels]),
            (None, Some(size)) => shape.extend([time, heads, size]),
            (None, None) => return None,
        }
        Some(shape)
    }

    /// Weights, biases and tables.
    fn parameter(&self, base: &str) -> Option<Guess> {
        use Counts as K;
        let (channels, outputs) = (self.last(K::Channels), self.last(K::Outputs));
        let vocabulary = self.last(K::Vocabulary);
        let last = || self.sizes.last().cloned();
        let ends = |word: &str| base == word || base.ends_with(&format!("_{word}"));
        if matches!(base, "wte" | "table" | "embedding" | "embeddings" | "embed") {
            let of_rows = |size: &&String| matches!(self.counts(size), K::Batch | K::Time);
            let first = self.sizes.first().filter(|size| !of_rows(size)).cloned();
            let entries = vocabulary.or(first).unwrap_or("V".to_owned());
            return Some((vec![entries, channels?], true));
        }
        if matches!(base, "wpe" | "pos_emb" | "cos" | "sin" | "freqs") {
            let width = channels.or_else(|| self.last(K::HeadSize)).or_else(last)?;
            return Some((
                vec![self.last(K::Time).or_else(|| self.sizes.first().cloned())?, width],
                true,
            ));
        }
        let filter = self.sizes.iter().find(|size| self.is_filter(size)).cloned();
        if WEIGHTS.iter().any(|word| ends(word)) && filter.is_some() {
            return Some((outputs.into_iter().chain(channels).chain(filter).collect(), true));
        }
        if WEIGHTS.iter().any(|word| ends(word)) {
            return Some(match (channels, outputs, vocabulary) {
                (Some(channels), Some(outputs), _) => (vec![outputs, channels], true),
                (Some(channels), None, Some(vocabulary)) => (vec![vocabulary, channels], true),
                (Some(channels), ..) => (vec![channels], true),
                _ => (vec![last()?], false),
            });
        }
        if BIASES.iter().any(|word| ends(word)) {
            return Some((vec![outputs.or(channels).or_else(last)?], true));
        }
        None
    }

    /// Whether `size` is that of the filter of a convolution.
    fn is_filter(&self, size: &str) -> bool {
        let names = ["K", "KW", "kernel_size", "ksize", "kernel_width", "filter_size", "width"];
        self.function.contains("conv") && names.contains(&size)
    }

    /// All sizes, as far as they do not stand for the same dimension.
    fn activation(&self, base: &str, output: bool) -> Vec<String> {
        use Counts as K;
        let (channels, outputs) = (self.last(K::Channels), self.last(K::Outputs));
        let result =
            matches!(base, "out" | "output" | "y") || output && base != "inp" && base != "x";
        let drop = |counts| match counts {
            K::Heads | K::Vocabulary => channels.is_some(),
            K::Outputs => channels.is_some() && !result,
            K::Channels => outputs.is_some() && result,
            _ => false,
        };
        let kept = self.sizes.iter().filter(|size| !self.is_filter(size));
        kept.filter(|size| !drop(self.counts(size))).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(function: &str, sizes: &str, tensors: &str) -> String {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (sizes, tensors) = (words(sizes), words(tensors));
        let scene = Scene { sizes: &sizes, function, tensors: &tensors };
        let one = |name: &String| {
            let (shape, _) = scene.shape(name, true, name.starts_with('d') || name == "out");
            format!("{name} {}", shape.join("x"))
        };
        tensors.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn names_suggest_shapes() {
        insta::assert_snapshot!([
            told("layernorm_backward", "B T C", "dinp dweight dbias dout inp weight mean rstd"),
            told("matmul_forward", "B T C OC", "out inp weight bias"),
            told("attention_forward", "B T C NH", "out qkvr preatt att inp"),
            told("encoder_forward", "B T C V", "out inp wte wpe"),
            told("encoder_backward", "B T C", "dwte dwpe dout"),
            told("crossentropy", "B T V Vp", "losses dlogits probs"),
            told("fused_classifier", "B T V P", "losses dlogits targets"),
            told("gemm", "M N K", "A B C bias"),
            told("rope", "batch seq heads head_dim", "q cos"),
            told("softmax", "rows cols", "out x row_max"),
            told("add", "n", "out x y"),
        ].join("\n"), @"
        dinp BxTxC, dweight C, dbias C, dout BxTxC, inp BxTxC, weight C, mean BxT, rstd BxT
        out BxTxOC, inp BxTxC, weight OCxC, bias OC
        out BxTxC, qkvr BxTx3xC, preatt BxNHxTxT, att BxNHxTxT, inp BxTx3xC
        out BxTxC, inp BxTxC, wte VxC, wpe TxC
        dwte VxC, dwpe TxC, dout BxTxC
        losses BxT, dlogits BxTxVp, probs BxTxVp
        losses BxT, dlogits BxTxP, targets BxT
        A MxK, B KxN, C MxN, bias N
        q batchxseqxheadsxhead_dim, cos seqxhead_dim
        out rowsxcols, x rowsxcols, row_max rows
        out n, x n, y n
        ");
    }
}
