//! The table `[roles]`: the roles of tensors in a step of a training, where the names do not give them.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::table::Table;
use super::{Harness, HarnessError, find_nearest_word};

/// The role of a tensor in a step of a training. Those of a parameter have its path, as `layers.3.attn.q`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// None of the others, whatever the tensor's name.
    None,
    Loss,
    /// The norm of all gradients together, before they were clipped.
    GradNorm,
    /// The limit for the norm of gradients. Above it they are clipped.
    MaxNorm,
    LearningRate,
    /// Adam's decay of the first moment.
    Beta1,
    /// Adam's decay of the second moment.
    Beta2,
    /// Adam's epsilon.
    Epsilon,
    /// How often Adam's moments were updated.
    AdamStep,
    /// The input tokens of a language model.
    Tokens,
    /// The tokens for it to predict.
    Targets,
    Weight(String),
    /// The same after the step.
    WeightAfter(String),
    /// The change of a parameter by the step.
    Update(String),
    Gradient(String),
    /// Adam's first moment.
    ExpAvg(String),
    /// Adam's second moment.
    ExpAvgSq(String),
}

/// A role with the path of its parameter.
type ParameterRoleFn = fn(String) -> Role;

/// The words for roles of the whole step.
const OF_STEP: [(&str, Role); 11] = [
    ("none", Role::None),
    ("loss", Role::Loss),
    ("grad_norm", Role::GradNorm),
    ("max_norm", Role::MaxNorm),
    ("lr", Role::LearningRate),
    ("beta1", Role::Beta1),
    ("beta2", Role::Beta2),
    ("eps", Role::Epsilon),
    ("adam_step", Role::AdamStep),
    ("tokens", Role::Tokens),
    ("targets", Role::Targets),
];
/// The words for roles of a parameter, as `gradient of layers.3.attn.q`.
const OF_PARAMETER: [(&str, ParameterRoleFn); 6] = [
    ("weight", Role::Weight),
    ("weight_after", Role::WeightAfter),
    ("update", Role::Update),
    ("gradient", Role::Gradient),
    ("exp_avg", Role::ExpAvg),
    ("exp_avg_sq", Role::ExpAvgSq),
];

impl Role {
    /// The role with the name `text`, or a similar word.
    fn parse(text: &str) -> Result<Role, Option<String>> {
        if let Some((_, role)) = OF_STEP.iter().find(|(word, _)| *word == text) {
            return Ok(role.clone());
        }
        let (word, path) = text.split_once(" of ").unwrap_or((text, ""));
        let word = word.trim();
        let path = path.trim();
        match OF_PARAMETER.iter().find(|(role_word, _)| *role_word == word) {
            Some((_, role)) if !path.is_empty() => Ok(role(path.to_owned())),
            Some((role_word, _)) => Err(Some(format!("{role_word} of PARAMETER"))),
            None => {
                let of_step = OF_STEP.iter().map(|(word, _)| *word);
                let all_words = of_step.chain(OF_PARAMETER.iter().map(|(word, _)| *word));
                Err(find_nearest_word(word, all_words))
            }
        }
    }

    /// Whether it is one number.
    pub fn is_scalar(&self) -> bool {
        matches!(
            self,
            Role::Loss
                | Role::GradNorm
                | Role::MaxNorm
                | Role::LearningRate
                | Role::Beta1
                | Role::Beta2
                | Role::Epsilon
                | Role::AdamStep
        )
    }
}

/// The roles in the harness, by tensor.
pub(super) fn parse_tensor_roles(
    root: &Table<'_>,
    harness: &Harness,
) -> Result<IndexMap<String, Role>, HarnessError> {
    let Some(value) = root.get("roles") else { return Ok(IndexMap::new()) };
    let mut roles = IndexMap::new();
    for entry in value.table()?.entries() {
        let tensor = entry.name.to_owned();
        let tensor_names = harness.inputs.keys().chain(harness.outputs.keys()).map(String::as_str);
        if !tensor_names.clone().any(|name| name == entry.name) {
            let problem = "is neither an input nor an output".to_owned();
            let nearest = find_nearest_word(entry.name, tensor_names);
            return Err(HarnessError::Role { spot: entry.key_spot(), tensor, problem, nearest });
        }
        let text = entry.string()?;
        let role = match Role::parse(&text) {
            Ok(role) => role,
            Err(nearest) => {
                let problem = format!("has no role `{text}`");
                return Err(HarnessError::Role { spot: entry.spot(), tensor, problem, nearest });
            }
        };
        if let Some((other_tensor, _)) =
            roles.iter().find(|(_, other_role)| **other_role == role && role != Role::None)
        {
            let problem = format!("has the role of `{other_tensor}`");
            let spot = entry.spot();
            return Err(HarnessError::Role { spot, tensor, problem, nearest: None });
        }
        roles.insert(tensor, role);
    }
    Ok(roles)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn harness(roles: &str) -> Result<Harness, HarnessError> {
        let text = format!(
            "sources = [\"a.cu\"]\ncall = \"f(w, g);\"\n[inputs.w]\ndtype = \"f32\"\nshape = [\"n\"]\n\
             [outputs.g]\ndtype = \"f32\"\nshape = [\"n\"]\n[roles]\n{roles}\n"
        );
        Harness::parse(&text, Path::new("replay.toml"))
    }

    #[test]
    fn a_role_names_a_parameter_by_its_path() {
        let roles = harness("w = \"weight of layers.3.attn.q\"\ng = \"none\"").unwrap().roles;
        assert_eq!(roles["w"], Role::Weight("layers.3.attn.q".to_owned()));
        assert_eq!(roles["g"], Role::None);
    }

    #[test]
    fn what_is_no_role_is_refused_with_the_one_that_was_meant() {
        let told = |roles: &str| {
            let error = harness(roles).unwrap_err();
            format!("{error}\n{}\n", error.hint().unwrap_or_default())
        };
        let all = [
            "w = \"gradeint of a\"",
            "w = \"gradient\"",
            "v = \"loss\"",
            "w = 3",
            "w = \"loss\"\ng = \"loss\"",
        ];
        insta::assert_snapshot!(all.map(told).concat(), @r#"
        `w` in `roles` at replay.toml:10:5 has no role `gradeint of a`, did you mean `gradient`?
        docs/series.md lists the roles, such as "lr" or "gradient of layers.0"
        `w` in `roles` at replay.toml:10:5 has no role `gradient`, did you mean `gradient of PARAMETER`?
        docs/series.md lists the roles, such as "lr" or "gradient of layers.0"
        `v` in `roles` at replay.toml:10:1 is neither an input nor an output, did you mean `w`?
        docs/series.md lists the roles, such as "lr" or "gradient of layers.0"
        `roles.w` at replay.toml:10:5 must be a string, not an integer

        `g` in `roles` at replay.toml:11:5 has the role of `w`
        docs/series.md lists the roles, such as "lr" or "gradient of layers.0"
        "#);
    }
}
