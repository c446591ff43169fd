//! What has to be supposed of a draft's shapes for a call to come to its end, by trying: more dimensions, sizes that are
//! numbers, room for products. Pure: what tries a call is given.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use ::replay::fixture::InputDraw;
use ::replay::tensor::DType;
use ::replay::trial::{RaceScope, TensorTraces};

use super::Draft;
use super::tensor_probe::MOST_DIMENSIONS;
use super::tied_sizes::LinearForm;
use super::types::find_dtype_by_torch_constant;

/// Numbers for all sizes at once, one after the other until they are accepted: warps need multiples of 32, some heads
/// smaller ones.
const ALIKE: [usize; 4] = [32, 16, 8, 64];
/// Numbers that a size may have to be, likely ones first: one element, points of a plane and of space, boxes.
const NUMBERS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
/// The number of all sizes where one is a large multiple of them.
const USUAL_BESIDE_MULTIPLE: usize = 8;
/// Larger numbers that a size may have to be, or a multiple of, where a check names them.
const NAMED_NUMBERS: RangeInclusive<usize> = NUMBERS[NUMBERS.len() - 1] + 1..=1024;
/// What a size may have to be where all others are equal: offsets of rows, two halves, the gates of a cell.
const FORMS: [LinearForm; 4] = [
    LinearForm { factor: 1, offset: 1 },
    LinearForm { factor: 2, offset: 0 },
    LinearForm { factor: 3, offset: 0 },
    LinearForm { factor: 4, offset: 0 },
];
/// Types of elements that a kernel may be written for alone.
const FLOATS: [DType; 3] = [DType::F16, DType::BF16, DType::F64];
/// No smaller number is tried for all sizes at once.
const SMALLEST: usize = 4;
/// For these of them more is supposed. With a smaller one a kernel has less to do, and one of many dimensions has room for
/// nothing larger.
const SEARCHED: [usize; 3] = [16, 32, 8];
/// So many tries are made for each of those.
const MOST_TRIES: usize = 160;
/// So many more are made behind one that is accepted with a flaw.
const MOST_TRIES_BESIDE: usize = 12;

/// What is supposed of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supposition {
    /// The draft, with tensors of more dimensions.
    pub draft: Draft,
    /// The number of each size without one of its own.
    pub usual: usize,
    /// Sizes that are numbers.
    pub numbers: BTreeMap<String, usize>,
    /// Sizes that follow from the others.
    pub forms: BTreeMap<String, LinearForm>,
    /// The only sizes of tensors with more elements than a size of another has: products.
    pub roomy: Vec<String>,
}

/// What a try ends with.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// The call comes to its end.
    Accepted(AcceptedCall),
    /// Other shapes may end otherwise.
    Fault(ShapeFault),
    /// Nothing was tried: a tensor would have too many elements, or time is up.
    Skipped,
    /// No shape helps.
    Hopeless { reason: String },
}

/// A call that comes to its end.
#[derive(Clone, Debug, Default)]
pub struct AcceptedCall {
    /// What it does with its tensors.
    pub traces: TensorTraces,
    /// The elements of its results that nobody writes.
    pub unwritten: usize,
    /// Whether it takes so long that smaller sizes are worth a try.
    pub is_slow: bool,
    /// Whether a tensor has no room for twice as many elements in two of its dimensions.
    pub is_crowded: bool,
}

/// What speaks against the shapes of a call that comes to its end, what counts more first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallFlaws {
    /// Blocks race with one another, as they do in rows that overlap.
    do_blocks_race: bool,
    /// Results are written in part, as they are where a tensor has more rows than another.
    is_result_partial: bool,
}

impl AcceptedCall {
    /// What speaks against its shapes.
    pub fn flaws(&self) -> CallFlaws {
        CallFlaws {
            do_blocks_race: self.traces.race == Some(RaceScope::Grid),
            is_result_partial: self.unwritten > 0,
        }
    }
}

/// Shapes with a call that comes to its end.
#[derive(Clone, Debug)]
pub struct AcceptedShapes {
    pub supposition: Supposition,
    pub call: AcceptedCall,
    /// The number of all sizes with which the call is fast, though tensors may be crowded then.
    pub fast: usize,
}

impl AcceptedShapes {
    fn new(supposition: Supposition, call: AcceptedCall) -> AcceptedShapes {
        AcceptedShapes { fast: supposition.usual, supposition, call }
    }

    fn is_flawless(&self) -> bool {
        self.call.flaws() == CallFlaws::default()
    }

    /// This one, unless `other` has fewer flaws.
    fn or_better(self, other: AcceptedShapes) -> AcceptedShapes {
        if other.call.flaws() < self.call.flaws() { other } else { self }
    }
}

/// Why a call did not come to its end.
#[derive(Clone, Debug, Default)]
pub struct ShapeFault {
    /// In words.
    pub reason: String,
    /// The file and the line of a check on the host that failed.
    pub place: Option<(String, usize)>,
    /// The words of the reason, and those around its line.
    pub words: BTreeSet<String>,
    /// The numbers that macros of the reason stand for.
    pub macro_numbers: BTreeSet<usize>,
}

impl ShapeFault {
    /// Whether the words name the parameter `name`, perhaps by a variable with fewer or more underscores at its end, or at the
    /// begin of a sentence.
    fn names(&self, name: &str) -> bool {
        let stem = name.trim_end_matches('_');
        self.words.iter().map(|word| word.trim_end_matches('_')).any(|word| {
            // `A` is an article.
            word == stem || stem.len() > 1 && word.eq_ignore_ascii_case(stem)
        })
    }

    /// Whether the reason itself names the parameter `name`.
    fn says(&self, name: &str) -> bool {
        split_words(&self.reason).any(|word| word == name)
    }

    /// Whether the reason has `name` in quotes.
    fn quotes(&self, name: &str) -> bool {
        ["`", "'"].iter().any(|quote| self.reason.contains(&format!("{quote}{name}{quote}")))
    }

    /// The numbers that the reason names, by macros as well, without the line of its place.
    fn list_numbers(&self) -> BTreeSet<usize> {
        let own_words = match &self.place {
            Some(_) => {
                self.reason.rsplit_once(" at ").map_or(self.reason.as_str(), |(words, _)| words)
            }
            None => &self.reason,
        };
        let written = split_words(own_words).filter_map(|word| word.parse().ok());
        written.chain(self.macro_numbers.iter().copied()).collect()
    }

    /// Whether the reason speaks of the number of dimensions.
    fn names_dimensions(&self) -> bool {
        split_words(&self.reason).any(|word| word.to_lowercase().contains("dim"))
    }

    /// The reason without its numbers, and its place.
    fn kind(&self) -> String {
        let is_number = |word: &&str| word.chars().all(|c| c.is_ascii_digit());
        let words: Vec<&str> = split_words(&self.reason).filter(|word| !is_number(word)).collect();
        format!("{} {:?}", words.join(" "), self.place)
    }

    /// The dtypes that a tensor may need instead, by the constants that the words name. Where a dispatch has no case for a
    /// dtype, the words name that alone.
    fn list_dtypes(&self) -> Vec<DType> {
        let named = self.words.iter().filter_map(|word| find_dtype_by_torch_constant(word));
        let mut dtypes: Vec<DType> = named.collect();
        if self.words.contains("implemented") && !dtypes.is_empty() {
            dtypes.extend(FLOATS);
        }
        dtypes.dedup();
        dtypes
    }

    /// Whether it is the dtype of a tensor in quotes. Arguments of a call are looked at in any order.
    fn is_of_dtype(&self) -> bool {
        self.reason.contains('`') && !self.list_dtypes().is_empty()
    }

    /// Whether a fault after this one is one of a check above it.
    fn is_behind(&self, later: &ShapeFault) -> bool {
        if self.is_of_dtype() && later.is_of_dtype() {
            return false;
        }
        match (&self.place, &later.place) {
            (Some((file, line)), Some((later_file, later_line))) => {
                file == later_file && later_line < line
            }
            _ => false,
        }
    }
}

/// Whether `c` may stand in a name.
pub(super) fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The names and other words of a text.
pub fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !is_word_character(c));
    words.filter(|word| !word.is_empty())
}

impl Supposition {
    /// The numbers of all sizes: `number` for those that are `moved`, and `room` for products. One that follows from others
    /// does so for either number.
    pub fn choose(&self, moved: &[String], number: usize, room: usize) -> BTreeMap<String, usize> {
        let choose = |name: &String| {
            if let Some(own_number) = self.numbers.get(name) {
                *own_number
            } else if self.roomy.contains(name) {
                room
            } else {
                let other_number = if moved.contains(name) { number } else { self.usual };
                self.forms.get(name).map_or(other_number, |form| form.of(other_number))
            }
        };
        let names = self.draft.argument_sizes().into_iter();
        names.map(|name| (name.clone(), choose(&name))).collect()
    }

    /// The sizes that are neither numbers nor products.
    pub fn open_sizes(&self) -> Vec<String> {
        let mut names = self.draft.argument_sizes();
        names.retain(|name| !self.numbers.contains_key(name) && !self.roomy.contains(name));
        names
    }

    /// What may be supposed as well after `fault`, likely things first: about the tensors that it names, and then about
    /// others.
    fn list_next(&self, fault: &ShapeFault) -> Vec<Supposition> {
        let tensors = self.draft.argument_tensors();
        let (mut named, others): (Vec<String>, Vec<String>) =
            tensors.into_iter().partition(|tensor| fault.names(tensor));
        named.sort_by_key(|tensor| !fault.quotes(tensor));
        let (named_parameters, other_parameters): (Vec<&String>, Vec<&String>) =
            self.draft.sizes.iter().partition(|size| fault.names(size));
        let (said_parameters, near_parameters): (Vec<&String>, Vec<&String>) =
            named_parameters.iter().partition(|size| fault.says(size));
        let mut next = self.list_dtypes(&named, fault);
        next.extend(self.list_for_integers(fault));
        next.extend(named.iter().filter_map(|tensor| self.with_draw(&[tensor], InputDraw::Absent)));
        if fault.place.is_none() {
            let inputs: Vec<&String> = self.draft.inputs.keys().collect();
            next.extend(self.with_draw(&inputs, InputDraw::Small));
            let indices: Vec<&String> =
                inputs.into_iter().filter(|name| self.draft.holds_indices(name)).collect();
            next.extend(self.with_draw(&indices, InputDraw::Distinct));
        }
        next.extend(self.list_named_forms(&[named.clone(), others.clone()].concat(), fault));
        self.list_named_numbers(&named, &said_parameters, fault, &mut next);
        self.list_for_parameters(&said_parameters, &mut next);
        self.list_for_tensors(&named, fault, &mut next);
        self.list_for_parameters(&near_parameters, &mut next);
        self.list_for_tensors(&others, fault, &mut next);
        self.list_for_parameters(&other_parameters, &mut next);
        next
    }

    /// Sizes that are a number that a check on the host names, where it is a multiple of the usual one: that of two tensors
    /// joined, or of gates; or a multiple by a number that it names. `tensors` are those that it may be about, likely ones first.
    fn list_named_forms(&self, tensors: &[String], fault: &ShapeFault) -> Vec<Supposition> {
        if fault.place.is_none() {
            return Vec::new();
        }
        let numbers = fault.list_numbers();
        let (named_forms, other_forms): (Vec<LinearForm>, Vec<LinearForm>) =
            FORMS.into_iter().partition(|form| numbers.contains(&form.of(self.usual)));
        let multiples = other_forms.iter().filter(|form| numbers.contains(&form.factor));
        let forms = named_forms.iter().chain(multiples.filter(|form| form.factor > 1));
        forms.flat_map(|form| self.list_with_form(tensors, *form)).collect()
    }

    /// Sizes of `tensors` and `parameters` that are a number that a check on the host names, or a multiple of the usual one by
    /// it, where these are no numbers that are tried without a word.
    fn list_named_numbers(
        &self,
        tensors: &[String],
        parameters: &[&String],
        fault: &ShapeFault,
        next: &mut Vec<Supposition>,
    ) {
        if fault.place.is_none() {
            return;
        }
        let open_sizes = self.open_sizes();
        let of_tensors = tensors.iter().flat_map(|tensor| self.draft.shape_of(tensor));
        let sizes = parameters.iter().copied().chain(of_tensors);
        let sizes: Vec<&String> = sizes.filter(|size| open_sizes.contains(size)).collect();
        // Another size may move with one that is a multiple.
        let known = self.forms.values().filter(|form| form.offset == 0).map(|form| form.factor);
        for number in fault.list_numbers().into_iter().chain(known).collect::<BTreeSet<usize>>() {
            if !NAMED_NUMBERS.contains(&number) || number == self.usual {
                continue;
            }
            if FORMS.iter().all(|form| form.of(self.usual) != number) {
                next.extend(sizes.iter().map(|size| self.with_numbers(&[size], number)));
            }
            let multiple = LinearForm { factor: number, offset: 0 };
            let plain_sizes = sizes.iter().filter(|size| !self.forms.contains_key(**size));
            // Products of a large multiple have room with smaller numbers alone.
            let small =
                Supposition { usual: self.usual.min(USUAL_BESIDE_MULTIPLE), ..self.clone() };
            next.extend(plain_sizes.map(|size| small.with_form(size, multiple)));
        }
    }

    /// With one size of `tensors` that has this `form`, each in turn.
    fn list_with_form(&self, tensors: &[String], form: LinearForm) -> Vec<Supposition> {
        let open_sizes = self.open_sizes();
        let sizes = tensors.iter().flat_map(|tensor| self.draft.shape_of(tensor));
        let plain_sizes =
            sizes.filter(|size| open_sizes.contains(size) && !self.forms.contains_key(*size));
        plain_sizes.map(|size| self.with_form(size, form)).collect()
    }

    /// What may be supposed about parameters that may be sizes.
    fn list_for_parameters(&self, parameters: &[&String], next: &mut Vec<Supposition>) {
        for size in parameters {
            next.extend(NUMBERS.map(|number| self.with_numbers(&[size], number)));
        }
    }

    /// With an integer of the harness that `fault` names as a size with each number, where 1 does not do.
    fn list_for_integers(&self, fault: &ShapeFault) -> Vec<Supposition> {
        let integers = self.draft.list_integers();
        let named = integers.iter().filter(|name| fault.names(name));
        let with_number = |name: &String, number| {
            let mut next = self.clone();
            next.draft.make_size(name);
            next.numbers.insert(name.clone(), number);
            next
        };
        named
            .flat_map(|name| NUMBERS[1..].iter().map(|number| with_number(name, *number)))
            .collect()
    }

    /// Other dtypes that `fault` speaks of: for all tensors at once, and for each of `named`.
    fn list_dtypes(&self, named: &[String], fault: &ShapeFault) -> Vec<Supposition> {
        let guessed = self.draft.list_guessed_dtypes();
        let floats: Vec<String> =
            guessed.iter().filter(|name| self.draft.holds_floats(name)).cloned().collect();
        let is_quoted = named.iter().any(|name| fault.quotes(name));
        let mut next = Vec::new();
        for dtype in fault.list_dtypes() {
            if dtype.is_float() {
                next.push(self.with_dtype(&floats, dtype));
            }
            let named_alone = named
                .iter()
                .filter(|name| guessed.contains(name) && (!is_quoted || fault.quotes(name)));
            next.extend(named_alone.map(|name| self.with_dtype(std::slice::from_ref(name), dtype)));
        }
        next
    }

    fn with_dtype(&self, tensors: &[String], dtype: DType) -> Supposition {
        let mut next = self.clone();
        next.draft.set_dtypes(tensors, dtype);
        next
    }

    /// What may be supposed about `tensors`.
    fn list_for_tensors(
        &self,
        tensors: &[String],
        fault: &ShapeFault,
        next: &mut Vec<Supposition>,
    ) {
        let is_of_memory = fault.place.is_none();
        for tensor in tensors.iter().filter(|_| is_of_memory) {
            next.extend(self.with_room_for(tensor));
        }
        let open_sizes = self.open_sizes();
        let own_sizes = tensors.iter().map(|tensor| {
            let shape = self.draft.shape_of(tensor).iter();
            shape.filter(|size| open_sizes.contains(size)).collect::<Vec<&String>>()
        });
        let own_sizes: Vec<Vec<&String>> = own_sizes.collect();
        let dimensions = tensors.iter().flat_map(|tensor| {
            let counts = self.draft.shape_of(tensor).len() + 1..=MOST_DIMENSIONS;
            counts.filter_map(|count| self.with_dimensions(tensor, count))
        });
        let ones = own_sizes.iter().flatten().map(|size| self.with_numbers(&[size], 1));
        // A smaller tensor is no cure for an access behind its end, but for one whose bounds are its sizes.
        if is_of_memory {
            next.extend(dimensions.chain(ones));
            // Kernels that take images or volumes take all tensors as such.
            let counts = 2..=MOST_DIMENSIONS;
            next.extend(counts.filter_map(|count| self.with_dimensions_of_all(count)));
        } else if fault.names_dimensions() {
            next.extend(dimensions.chain(ones));
        } else {
            next.extend(ones.chain(dimensions));
        }
        for sizes in &own_sizes {
            for (place, one) in sizes.iter().enumerate() {
                let others = sizes[place + 1..].iter();
                next.extend(others.map(|other| self.with_numbers(&[one, other], 1)));
            }
        }
        for number in &NUMBERS[1..] {
            let sizes = own_sizes.iter().flatten();
            next.extend(sizes.map(|size| self.with_numbers(&[size], *number)));
        }
        let plain_sizes =
            own_sizes.iter().flatten().filter(|size| !self.forms.contains_key(**size));
        for size in plain_sizes {
            next.extend(FORMS.map(|form| self.with_form(size, form)));
        }
    }

    /// The form of a size that has one in `next` and not here.
    fn find_new_form(&self, next: &Supposition) -> Option<LinearForm> {
        next.forms.iter().find(|(size, _)| !self.forms.contains_key(*size)).map(|(_, form)| *form)
    }

    fn with_form(&self, size: &str, form: LinearForm) -> Supposition {
        let mut next = self.clone();
        next.forms.insert(size.to_owned(), form);
        next
    }

    /// With this `draw` of usual `inputs`, if that is a change: an input is left out if it is optional.
    fn with_draw(&self, inputs: &[&String], draw: InputDraw) -> Option<Supposition> {
        let mut next = self.clone();
        for input in inputs {
            let may_change = draw != InputDraw::Absent || self.draft.is_optional(input);
            if may_change && self.draft.draw_of(input) == InputDraw::Usual {
                next.draft.set_draw(input, draw);
            }
        }
        (next != *self).then_some(next)
    }

    fn with_numbers(&self, sizes: &[&String], number: usize) -> Supposition {
        let mut next = self.clone();
        next.numbers.extend(sizes.iter().map(|size| ((*size).clone(), number)));
        next
    }

    /// With room for `tensor`, if nothing is known of its shape.
    fn with_room_for(&self, tensor: &str) -> Option<Supposition> {
        let [size] = self.draft.shape_of(tensor) else { return None };
        let is_open = self.open_sizes().contains(size) && self.draft.only_sizes().contains(size);
        is_open.then(|| {
            let mut next = self.clone();
            next.roomy.push(size.clone());
            next
        })
    }

    /// With at least `count` dimensions of each tensor, if that is a change for several.
    fn with_dimensions_of_all(&self, count: usize) -> Option<Supposition> {
        let mut all = self.clone();
        let mut changes = 0;
        for tensor in self.draft.argument_tensors() {
            if let Some(next) = all.with_dimensions(&tensor, count)
                && next != all
            {
                all = next;
                changes += 1;
            }
        }
        (changes > 1).then_some(all)
    }

    /// With `count` dimensions of `tensor`, if that is a change.
    fn with_dimensions(&self, tensor: &str, count: usize) -> Option<Supposition> {
        let mut next = self.clone();
        next.draft.set_dimensions(tensor, count);
        let is_open = self.draft.shape_of(tensor).iter().all(|size| !self.roomy.contains(size));
        (is_open && next.draft.shape_of(tensor).len() == count).then_some(next)
    }
}

/// What may turn out to be needless, of a size or an input.
enum Supposed {
    Number(String),
    Form(String),
    Draw(String),
}

/// The search for a supposition.
struct ShapeSearch<A> {
    attempt: A,
    room: usize,
    tries_left: usize,
    /// The faults that were met, without their numbers.
    met: BTreeSet<String>,
    tried: Vec<Supposition>,
    /// The call with the fewest flaws, of equal ones the first.
    best: Option<AcceptedShapes>,
}

/// What has to be supposed of `draft` for a call to come to its end; none where no supposition is found. Products get `room`.
/// `attempt` tries a call of a draft with sizes.
///
/// # Errors
/// Those of `attempt`.
pub fn find_supposition<E>(
    draft: &Draft,
    room: usize,
    attempt: impl FnMut(&Draft, &BTreeMap<String, usize>) -> Result<Attempt, E>,
) -> Result<Option<AcceptedShapes>, E> {
    let mut search = ShapeSearch {
        attempt,
        room,
        tries_left: MOST_TRIES,
        met: BTreeSet::new(),
        tried: Vec::new(),
        best: None,
    };
    let mut faults = Vec::new();
    for usual in ALIKE {
        let nothing = Supposition {
            draft: draft.clone(),
            usual,
            numbers: draft.known_numbers.clone(),
            forms: draft.known_forms.clone(),
            roomy: Vec::new(),
        };
        match search.attempt_with(&nothing)? {
            Attempt::Accepted(call) => {
                return search.settle(AcceptedShapes::new(nothing, call)).map(Some);
            }
            Attempt::Fault(fault) => faults.push((nothing, fault)),
            Attempt::Skipped => {}
            Attempt::Hopeless { .. } => return Ok(None),
        }
    }
    let searched = SEARCHED
        .iter()
        .flat_map(|usual| faults.iter().filter(move |(nothing, _)| nothing.usual == *usual));
    for (nothing, fault) in searched {
        search.tries_left = MOST_TRIES;
        search.met = BTreeSet::from([fault.kind()]);
        search.suppose_more(nothing, fault)?;
        if let Some(best) = search.best.take() {
            return search.settle(best).map(Some);
        }
    }
    Ok(None)
}

impl<E, A: FnMut(&Draft, &BTreeMap<String, usize>) -> Result<Attempt, E>> ShapeSearch<A> {
    fn attempt_with(&mut self, supposition: &Supposition) -> Result<Attempt, E> {
        let sizes = supposition.choose(&[], supposition.usual, self.room);
        (self.attempt)(&supposition.draft, &sizes)
    }

    /// What is left of `accepted` where only what is needed is supposed, with smaller sizes if the call is slow or crowded: first of all, so
    /// that the rest takes less time, and again where the number of some columns kept them from it.
    fn settle(&mut self, accepted: AcceptedShapes) -> Result<AcceptedShapes, E> {
        let small = self.shrink(accepted)?;
        let needed = self.drop_needless(small)?;
        let fixed = self.fix_last_numbers(needed)?;
        self.shrink(fixed)
    }

    /// What is `accepted`, with half of all sizes as often as the call is slow or crowded and comes to its end with a quarter, too.
    fn shrink(&mut self, mut accepted: AcceptedShapes) -> Result<AcceptedShapes, E> {
        while (accepted.call.is_slow || accepted.call.is_crowded)
            && accepted.supposition.usual > SMALLEST
        {
            let usual = accepted.supposition.usual;
            let half = Supposition { usual: usual / 2, ..accepted.supposition.clone() };
            let quarter = Supposition { usual: usual / 4, ..accepted.supposition.clone() };
            // Sizes that have to be equal are found by moving them: to half of their number, too.
            let Attempt::Accepted(_) = self.attempt_with(&quarter)? else { break };
            let Attempt::Accepted(call) = self.attempt_with(&half)? else { break };
            if accepted.call.is_slow {
                accepted.fast = half.usual;
            }
            accepted.supposition = half;
            accepted.call = call;
        }
        Ok(accepted)
    }

    /// What is `accepted` without what need not be supposed of numbers, now that the rest is.
    fn drop_needless(&mut self, mut accepted: AcceptedShapes) -> Result<AcceptedShapes, E> {
        let Supposition { draft, numbers, forms, .. } = &accepted.supposition;
        let guessed =
            numbers.iter().filter(|(size, number)| draft.known_numbers.get(*size) != Some(*number));
        let numbers = guessed.map(|(size, _)| Supposed::Number(size.clone()));
        let forms = forms.keys().cloned().map(Supposed::Form);
        let draws = draft.list_draws().into_keys().map(Supposed::Draw);
        for supposed in draws.chain(numbers).chain(forms).collect::<Vec<Supposed>>() {
            let mut next = accepted.supposition.clone();
            match &supposed {
                Supposed::Number(size) => {
                    next.numbers.remove(size);
                }
                Supposed::Form(size) => {
                    next.forms.remove(size);
                }
                Supposed::Draw(input) => next.draft.set_draw(input, InputDraw::Usual),
            }
            if let Attempt::Accepted(call) = self.attempt_with(&next)?
                && call.flaws() <= accepted.call.flaws()
            {
                accepted.supposition = next;
                accepted.call = call;
            }
        }
        Ok(accepted)
    }

    /// What is `accepted`, with the numbers that last dimensions are, as far as touched elements tell them: a larger one would
    /// hide what the dimensions before it need.
    fn fix_last_numbers(&mut self, mut accepted: AcceptedShapes) -> Result<AcceptedShapes, E> {
        let AcceptedShapes { supposition, call, .. } = &accepted;
        let sizes = supposition.choose(&[], supposition.usual, self.room);
        let reach = call.traces.reach.clone();
        for tensor in supposition.draft.argument_tensors() {
            let supposition = &accepted.supposition;
            let Some((size, number)) = supposition.draft.last_number(&tensor, &sizes, &reach)
            else {
                continue;
            };
            let supposition = supposition.with_numbers(&[&size], number);
            if let Attempt::Accepted(call) = self.attempt_with(&supposition)?
                && call.flaws() <= accepted.call.flaws()
            {
                accepted.supposition = supposition;
                accepted.call = call;
            }
        }
        Ok(accepted)
    }

    /// Looks for what else has to be supposed where `supposition` ends with `fault`: a further one counts if another fault comes
    /// after it. Returns whether a call is found that has no flaw.
    fn suppose_more(&mut self, supposition: &Supposition, fault: &ShapeFault) -> Result<bool, E> {
        let mut tries_beside = 0;
        for next in supposition.list_next(fault) {
            let is_beside = self.best.is_some();
            if tries_beside == MOST_TRIES_BESIDE {
                break;
            }
            let Some(attempt) = self.attempt_once(&next)? else { continue };
            tries_beside += usize::from(is_beside);
            let is_found = match attempt {
                Attempt::Accepted(call) => self.keep_better(next, call),
                // Less would be supposed with the flaw.
                Attempt::Fault(_) if is_beside => false,
                Attempt::Fault(later) if fault.is_behind(&later) => {
                    match supposition.find_new_form(&next) {
                        Some(form) => self.move_together(&next, form, fault, &later)?,
                        None => false,
                    }
                }
                Attempt::Fault(later) => self.suppose_after(&next, &later)?,
                Attempt::Skipped | Attempt::Hopeless { .. } => false,
            };
            if is_found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks for what else has to be supposed where `supposition` ends with a `fault` that was not met yet.
    fn suppose_after(&mut self, supposition: &Supposition, fault: &ShapeFault) -> Result<bool, E> {
        Ok(self.met.insert(fault.kind()) && self.suppose_more(supposition, fault)?)
    }

    /// Looks for what has to be supposed where a size of this `form` makes `supposition` end with an `earlier` fault than the one
    /// that it is to cure: a size of another tensor may have to move with it.
    fn move_together(
        &mut self,
        supposition: &Supposition,
        form: LinearForm,
        fault: &ShapeFault,
        earlier: &ShapeFault,
    ) -> Result<bool, E> {
        if !earlier.list_numbers().contains(&form.of(supposition.usual)) {
            return Ok(false);
        }
        let mut tensors = supposition.draft.argument_tensors();
        tensors.retain(|tensor| earlier.names(tensor));
        for next in supposition.list_with_form(&tensors, form) {
            let is_found = match self.attempt_once(&next)? {
                Some(Attempt::Accepted(call)) => self.keep_better(next, call),
                Some(Attempt::Fault(later)) if !fault.is_behind(&later) => {
                    self.suppose_after(&next, &later)?
                }
                _ => false,
            };
            if is_found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Keeps `supposition` with its `call` unless a call that was found has as few flaws. Returns whether one has none.
    fn keep_better(&mut self, supposition: Supposition, call: AcceptedCall) -> bool {
        let next = AcceptedShapes::new(supposition, call);
        let better = match self.best.take() {
            Some(best) => best.or_better(next),
            None => next,
        };
        let is_flawless = better.is_flawless();
        self.best = Some(better);
        is_flawless
    }

    /// Tries `supposition` if it was not tried yet and tries are left; none where it cannot be tried.
    fn attempt_once(&mut self, supposition: &Supposition) -> Result<Option<Attempt>, E> {
        if self.tries_left == 0 || self.tried.contains(supposition) {
            return Ok(None);
        }
        self.tried.push(supposition.clone());
        let attempt = self.attempt_with(supposition)?;
        if matches!(attempt, Attempt::Skipped) {
            return Ok(None);
        }
        self.tries_left -= 1;
        Ok(Some(attempt))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ::replay::frontend::{
        FunctionSignature, SourceUnit, find_function_signatures, scan_symbols,
    };

    use super::super::TypeNames;
    use super::*;

    /// The draft of a function of tensors with these `parameters` and this `body`.
    pub(in super::super) fn draft_function(parameters: &str, body: &str) -> Draft {
        let text = format!("void f({parameters}) {{ {body} }}");
        let unit = SourceUnit { path: "k.cu", text: &text };
        let found = find_function_signatures(&unit, &scan_symbols(&[unit]));
        let functions: Vec<&FunctionSignature> = found.iter().collect();
        Draft::from_functions(&functions, &TypeNames::default()).remove(0)
    }

    /// What a call ends with that comes to its end where it `is_accepted`.
    pub(in super::super) fn accept_call(is_accepted: bool) -> Attempt {
        if is_accepted {
            Attempt::Accepted(AcceptedCall::default())
        } else {
            Attempt::Fault(ShapeFault::default())
        }
    }

    /// A check in line `line` that fails, of the tensor `name`; in line 0 an access out of bounds.
    fn fail(name: &str, line: usize) -> Result<(), ShapeFault> {
        let place = (line > 0).then(|| ("k.cu".to_owned(), line));
        let reason = format!("{name} is wrong in {line}");
        Err(ShapeFault {
            reason,
            place,
            words: BTreeSet::from([name.to_owned()]),
            ..ShapeFault::default()
        })
    }

    /// The shapes with which a call of `draft` comes to its end, and the number of tries.
    fn search(
        draft: &Draft,
        call: impl Fn(&dyn Fn(&str) -> Vec<usize>) -> Result<(), ShapeFault>,
    ) -> (Option<String>, usize) {
        let mut tries = 0;
        let found = find_supposition(draft, 1 << 20, |draft, sizes| {
            tries += 1;
            let shape = |name: &str| {
                draft.shape_of(name).iter().map(|size| sizes[size]).collect::<Vec<usize>>()
            };
            Ok::<Attempt, ()>(match call(&shape) {
                // All elements are touched, but of points three alone.
                Ok(()) => {
                    let tensors = draft.argument_tensors().into_iter();
                    let reach = tensors.map(|name| {
                        let shape = shape(&name);
                        let is_of_points = name == "points" && shape.len() == 3;
                        let last = if is_of_points { 3 } else { shape[shape.len() - 1] };
                        (name, shape[..shape.len() - 1].iter().product::<usize>() * last)
                    });
                    let traces = TensorTraces { reach: reach.collect(), ..TensorTraces::default() };
                    Attempt::Accepted(AcceptedCall { traces, ..AcceptedCall::default() })
                }
                Err(fault) => Attempt::Fault(fault),
            })
        });
        let words = found.unwrap().map(|AcceptedShapes { supposition: found, .. }| {
            let sizes = found.choose(&[], found.usual, 1 << 20);
            let tensors = found.draft.argument_tensors().into_iter();
            let shapes = tensors.map(|name| {
                let shape = found.draft.shape_of(&name).iter().map(|size| sizes[size].to_string());
                format!("{name} {}", shape.collect::<Vec<_>>().join("x"))
            });
            shapes.collect::<Vec<_>>().join(", ")
        });
        (words, tries)
    }

    #[test]
    fn nothing_is_supposed_where_equal_sizes_do() {
        let draft = draft_function("at::Tensor x, at::Tensor out", "int n = x.size(0);");
        assert_eq!(search(&draft, |_| Ok(())), (Some("x 32, out 32".to_owned()), 1));
        let small = search(&draft, |shape| if shape("x")[0] < 16 { Ok(()) } else { fail("x", 3) });
        assert_eq!(small.0.unwrap(), "x 8, out 8");
    }

    #[test]
    fn checks_of_numbers_and_of_dimensions_are_met_one_after_the_other() {
        let draft = draft_function("at::Tensor x, at::Tensor count, at::Tensor points", "");
        let (shapes, tries) = search(&draft, |shape| {
            if shape("count") != [1] {
                return fail("count", 3);
            }
            if shape("points").len() != 3 {
                return fail("points", 5);
            }
            if shape("points")[2] != 3 { fail("points", 7) } else { Ok(()) }
        });
        assert_eq!(shapes.unwrap(), "count 1, points 16x16x3, x 16");
        assert!(tries < 40, "{tries}");
    }

    #[test]
    fn two_sizes_of_a_tensor_may_have_to_be_one() {
        let body = "int s = x.size(0), f = freqs.size(3);";
        let draft = draft_function("at::Tensor x, at::Tensor freqs", body);
        let (shapes, _) = search(&draft, |shape| match shape("freqs")[..] {
            [_, 1, 1, _] => Ok(()),
            _ => fail("freqs", 38),
        });
        assert_eq!(shapes.unwrap(), "freqs 16x1x1x16, x 16");
    }

    /// A cell of a recurrent network: its gates are a product of two tensors joined.
    #[test]
    fn sizes_that_are_joined_and_move_together_are_found_by_the_numbers_of_checks() {
        let body = "auto x = torch::cat({h, input}, 1); int b = c.size(0), s = c.size(1);";
        let parameters =
            "at::Tensor input, at::Tensor weights, at::Tensor bias, at::Tensor h, at::Tensor c";
        let draft = draft_function(parameters, body);
        let (shapes, tries) = search(&draft, |shape| {
            let fail = |reason: String, names: &[&str], line: usize| {
                let words = names.iter().map(|name| (*name).to_owned()).collect();
                let place = Some(("k.cu".to_owned(), line));
                Err(ShapeFault {
                    reason: format!("{reason} at k.cu:{line}"),
                    place,
                    words,
                    ..ShapeFault::default()
                })
            };
            let near = ["input", "weights", "bias", "h"];
            let [rows, own_width] = shape("h")[..] else {
                return fail("Dimension out of range".to_owned(), &near, 3);
            };
            let input = shape("input");
            if input.len() != 2 || input[0] != rows {
                return fail("sizes must match".to_owned(), &near, 3);
            }
            let [gates, terms] = shape("weights")[..] else {
                return fail("Dimension out of range".to_owned(), &near, 4);
            };
            let joined = input[1] + own_width;
            if terms != joined {
                return fail(format!("cannot be multiplied: {joined} and {terms}"), &near, 4);
            }
            if shape("bias") != [gates] {
                let reason = format!("size {gates} must match {}", shape("bias")[0]);
                return fail(reason, &near, 4);
            }
            let cell = shape("c");
            if gates != 3 * cell[1] {
                let reason = format!("shape [{rows}, 3, {}] is invalid", cell[1]);
                return fail(reason, &["c"], 9);
            }
            Ok(())
        });
        let found = "weights 48x32, bias 48, h 16x16, c 16x16, input 16x16";
        assert_eq!(shapes.unwrap(), found);
        assert!(tries < 80, "{tries}");
    }

    #[test]
    fn an_access_out_of_bounds_is_met_by_room_or_by_more_dimensions() {
        let body = "int n = x.size(0), m = x.size(1), k = points.size(1);";
        let draft = draft_function("at::Tensor x, at::Tensor z, at::Tensor points", body);
        let (shapes, _) = search(&draft, |shape| {
            let elements = |name| shape(name).iter().product::<usize>();
            if elements("z") < elements("x") {
                return fail("z", 0);
            }
            if elements("points") < 16 * 16 * 3 { fail("points", 0) } else { Ok(()) }
        });
        assert_eq!(shapes.unwrap(), "z 1048576, points 16x16x3, x 16x16");
    }

    #[test]
    fn tensors_whose_names_differ_in_a_digit_have_faults_of_their_own() {
        let draft = draft_function("at::Tensor x, at::Tensor out1, at::Tensor out2", "");
        let (shapes, _) = search(&draft, |shape| {
            let is_small = |name: &&str| shape(name).iter().product::<usize>() < 2000;
            ["out1", "out2"].iter().find(|name| is_small(name)).map_or(Ok(()), |name| fail(name, 0))
        });
        assert_eq!(shapes.unwrap(), "out1 1048576, out2 1048576, x 16");
    }

    #[test]
    fn a_check_of_dtypes_is_met_by_other_dtypes() {
        let draft = draft_function(
            "at::Tensor x, at::Tensor index",
            "k<<<1, 1>>>(x.data_ptr<scalar_t>());",
        );
        let dtype = |draft: &Draft, name: &str| draft.find_tensor(name).unwrap().dtype;
        let found = find_supposition(&draft, 1 << 20, |draft, _| {
            let fault = |reason: &str, line| {
                let words = split_words(reason).map(str::to_owned).collect();
                let place = Some(("k.cu".to_owned(), line));
                Attempt::Fault(ShapeFault {
                    reason: reason.to_owned(),
                    place,
                    words,
                    ..ShapeFault::default()
                })
            };
            Ok::<Attempt, ()>(if dtype(draft, "index") != Some(DType::I32) {
                fault("index.scalar_type() == at::kInt", 3)
            } else if dtype(draft, "x") != Some(DType::BF16) {
                fault("\"forward\" not implemented for 'Float'", 9)
            } else {
                Attempt::Accepted(AcceptedCall::default())
            })
        });
        assert!(found.unwrap().is_some());
    }

    #[test]
    fn where_a_check_is_of_dimensions_they_come_before_sizes() {
        let draft = draft_function("at::Tensor x, at::Tensor logits", "");
        let (found, tries) = search(&draft, |shape| {
            let fault = |words: &[&str], line: Option<usize>| {
                let place = line.map(|line| ("k.cu".to_owned(), line));
                let words: BTreeSet<String> = words.iter().map(|word| (*word).to_owned()).collect();
                let reason = if line.is_some() { "2 dim input expected" } else { "out of bounds" };
                Err(ShapeFault { reason: reason.to_owned(), place, words, ..ShapeFault::default() })
            };
            let dimensions = [shape("x").len(), shape("logits").len()];
            match dimensions {
                [2, 2] => Ok(()),
                // A single column is no cure: it leads elsewhere.
                [2, _] if shape("x")[1] == 1 => fault(&["x"], None),
                [2, _] => fault(&["x", "logits"], Some(9)),
                _ => fault(&["x"], Some(3)),
            }
        });
        assert_eq!(found.unwrap(), "logits 16x16, x 16x16");
        assert!(tries < 20, "{tries}");
    }

    #[test]
    fn underscores_at_the_end_of_a_name_do_not_count() {
        let words = BTreeSet::from(["labels_".to_owned(), "bias".to_owned()]);
        let fault = ShapeFault { words, ..ShapeFault::default() };
        assert!(fault.names("labels") && fault.names("bias_") && !fault.names("label"));
    }

    #[test]
    fn a_parameter_that_no_word_names_is_tried_last_and_nothing_twice() {
        let draft = draft_function("at::Tensor x, int mode", "k<<<1, 1>>>(x, mode);");
        let mut tried = Vec::new();
        let found = find_supposition(&draft, 1 << 20, |_, sizes| {
            tried.push(sizes.clone());
            Ok::<Attempt, ()>(if sizes["mode"] == 3 {
                Attempt::Accepted(AcceptedCall::default())
            } else {
                Attempt::Fault(fail("x", 3).unwrap_err())
            })
        });
        assert_eq!(
            found.unwrap().unwrap().supposition.numbers,
            BTreeMap::from([("mode".to_owned(), 3)])
        );
        let count = tried.len();
        tried.sort();
        tried.dedup();
        // With more dimensions of `x` its sizes are those of the try before.
        assert!(count < 40, "{count}");
    }

    #[test]
    fn a_number_that_python_passes_is_kept_unless_a_check_needs_another() {
        let mut draft = draft_function("at::Tensor x, int mode", "k<<<1, 1>>>(x, mode);");
        draft.known_numbers.insert("mode".to_owned(), 3);
        let kept = suppose(&draft, 64, |_, _| Ok(()));
        assert_eq!(kept.numbers, draft.known_numbers);
        let other = suppose(&draft, 64, |_, sizes| match sizes["mode"] {
            2 => Ok(()),
            _ => fail("mode", 3),
        });
        assert_eq!(other.numbers, BTreeMap::from([("mode".to_owned(), 2)]));
    }

    #[test]
    fn a_number_that_another_supposition_makes_needless_is_dropped() {
        let draft = draft_function("at::Tensor x, at::Tensor y, at::Tensor z", "");
        let (shapes, _) = search(&draft, |shape| match (&shape("y")[..], &shape("z")[..]) {
            (_, [2]) => Ok(()),
            ([1], _) => fail("z", 5),
            _ => fail("y", 3),
        });
        assert_eq!(shapes.unwrap(), "x 16, z 2, y 16");
    }

    /// The supposition for a call of `draft` that `accepts` the numbers of its sizes, and is slow above `fast`.
    fn suppose(
        draft: &Draft,
        fast: usize,
        accepts: impl Fn(&Draft, &BTreeMap<String, usize>) -> Result<(), ShapeFault>,
    ) -> Supposition {
        let found = find_supposition(draft, 1 << 20, |draft, sizes| {
            Ok::<Attempt, ()>(match accepts(draft, sizes) {
                Ok(()) => Attempt::Accepted(AcceptedCall {
                    is_slow: sizes.values().any(|size| *size > fast),
                    ..AcceptedCall::default()
                }),
                Err(fault) => Attempt::Fault(fault),
            })
        });
        found.unwrap().unwrap().supposition
    }

    #[test]
    fn room_is_given_in_the_dimension_after_which_no_blocks_race_and_all_is_written() {
        let body = "int h = w.size(0), l = w.size(1), k = w.size(2), n = x.size(1);";
        let draft = draft_function("at::Tensor w, at::Tensor x", body);
        let search = |accept: &dyn Fn(&BTreeMap<String, usize>) -> AcceptedCall| {
            let mut tries = 0;
            let found = find_supposition(&draft, 1 << 20, |_, sizes| {
                tries += 1;
                let rows = sizes["n"];
                let has_room = sizes["h"] * sizes["l"] * sizes["k"] > 16 * 16 * 16;
                Ok::<Attempt, ()>(match rows {
                    17 if has_room => Attempt::Accepted(accept(sizes)),
                    17 => Attempt::Fault(ShapeFault {
                        reason: "out of bounds of w".to_owned(),
                        words: split_words("out of bounds of w").map(str::to_owned).collect(),
                        ..ShapeFault::default()
                    }),
                    _ => Attempt::Fault(fail("x", 5).unwrap_err()),
                })
            });
            (found.unwrap().unwrap().supposition, tries)
        };
        let race = |does_race: bool| {
            let traces =
                TensorTraces { race: does_race.then_some(RaceScope::Grid), ..Default::default() };
            AcceptedCall { traces, ..AcceptedCall::default() }
        };
        let leave = |unwritten: usize| AcceptedCall { unwritten, ..AcceptedCall::default() };
        let form = Some(&LinearForm { factor: 1, offset: 1 });
        let (free, _) = search(&|sizes| race(sizes["l"] != sizes["n"]));
        assert_eq!((free.forms.get("l"), free.forms.get("h")), (form, None));
        let (whole, _) = search(&|sizes| leave(sizes["n"] - sizes["l"]));
        assert_eq!((whole.forms.get("l"), whole.forms.get("h")), (form, None));
        // Code that races or writes a part whatever its sizes are is drafted, too.
        for call in [race(true), leave(1)] {
            let (flawed, tries) = search(&|_| call.clone());
            assert_eq!(flawed.forms.get("n"), form);
            assert!(tries < 120, "{tries}");
        }
    }

    #[test]
    fn a_last_dimension_gets_no_number_with_which_a_result_is_written_in_part() {
        let draft = draft_function("at::Tensor x, at::Tensor boxes", "");
        let found = find_supposition(&draft, 1 << 20, |draft, sizes| {
            let shape = draft.shape_of("boxes");
            let Some(columns) = shape.get(1).map(|size| sizes[size]) else {
                return Ok::<Attempt, ()>(Attempt::Fault(fail("boxes", 0).unwrap_err()));
            };
            let traces = TensorTraces {
                reach: BTreeMap::from([("boxes".to_owned(), 4 * sizes[&shape[0]])]),
                ..TensorTraces::default()
            };
            let unwritten = usize::from(columns == 4);
            Ok(Attempt::Accepted(AcceptedCall { traces, unwritten, ..AcceptedCall::default() }))
        });
        assert_eq!(found.unwrap().unwrap().supposition.numbers, BTreeMap::new());
    }

    #[test]
    fn a_size_may_follow_from_others() {
        let draft = draft_function("at::Tensor indptr, at::Tensor weights, at::Tensor x", "");
        let found = suppose(&draft, 64, |_, sizes| {
            if sizes["indptr_0"] != sizes["x_0"] + 1 {
                return fail("indptr", 3);
            }
            if sizes["weights_0"] == 3 * sizes["x_0"] { Ok(()) } else { fail("weights", 5) }
        });
        let form = |factor, offset| LinearForm { factor, offset };
        assert_eq!(found.forms["indptr_0"], form(1, 1));
        assert_eq!(found.forms["weights_0"], form(3, 0));
        let sizes = found.choose(&["x_0".to_owned(), "indptr_0".to_owned()], 8, 1);
        assert_eq!((sizes["x_0"], sizes["indptr_0"], sizes["weights_0"]), (8, 9, 48));
    }

    #[test]
    fn a_size_is_a_number_or_a_multiple_that_a_check_names_by_a_macro_as_well() {
        let draft = draft_function("at::Tensor x, int C, int H", "k<<<H, C>>>(x, C, H);");
        let fault = |words: &str, macro_numbers: &[usize]| {
            Err(ShapeFault {
                reason: format!("assertion `{words}` failed at k.cu:3"),
                place: Some(("k.cu".to_owned(), 3)),
                words: split_words(words).map(str::to_owned).collect(),
                macro_numbers: macro_numbers.iter().copied().collect(),
            })
        };
        let multiple = suppose(&draft, 1024, |_, sizes| {
            if sizes["H"] * 64 == sizes["C"] { Ok(()) } else { fault("H * WIDTH == C", &[64]) }
        });
        assert_eq!(multiple.forms["C"], LinearForm { factor: 64, offset: 0 });
        let number = suppose(&draft, 1024, |_, sizes| match sizes["C"] {
            80 => Ok(()),
            _ => fault("C == 80", &[]),
        });
        assert_eq!(number.numbers, BTreeMap::from([("C".to_owned(), 80)]));
    }

    #[test]
    fn an_optional_tensor_is_left_out_where_a_check_of_it_fails() {
        let parameters =
            "at::Tensor x, c10::optional<at::Tensor> mask, c10::optional<at::Tensor> b";
        let draft = draft_function(parameters, "");
        let found = suppose(&draft, 64, |draft, _| match draft.draw_of("mask") {
            InputDraw::Absent => Ok(()),
            _ => fail("mask", 3),
        });
        assert_eq!(found.draft.list_draws(), BTreeMap::from([("mask".into(), InputDraw::Absent)]));
    }

    #[test]
    fn an_index_among_floats_is_met_by_small_numbers_of_that_input_alone() {
        let draft = draft_function("at::Tensor x, at::Tensor boxes, at::Tensor y", "");
        let found = suppose(&draft, 64, |draft, _| match draft.draw_of("boxes") {
            InputDraw::Small => Ok(()),
            _ => fail("x", 0),
        });
        let draws = BTreeMap::from([("boxes".to_owned(), InputDraw::Small)]);
        assert_eq!((found.draft.list_draws(), found.numbers.len()), (draws, 0));
    }

    #[test]
    fn all_tensors_are_images_where_a_kernel_takes_them_as_such() {
        let draft = draft_function("at::Tensor x, at::Tensor grid, at::Tensor y", "");
        // With fewer dimensions of another each access is far away, which tells nothing.
        let found = suppose(&draft, 64, |draft, _| {
            let is_image = |name: &&str| draft.shape_of(name).len() == 4;
            if ["x", "grid"].iter().all(is_image) { Ok(()) } else { fail("x", 0) }
        });
        assert_eq!(found.draft.shape_of("grid").len(), 4);
    }

    #[test]
    fn sizes_are_smaller_where_a_call_is_slow_and_half_of_them_does_too() {
        let draft = draft_function("at::Tensor x", "");
        assert_eq!(suppose(&draft, 64, |_, _| Ok(())).usual, 32);
        assert_eq!(suppose(&draft, 10, |_, _| Ok(())).usual, 8);
        let by_eight = |_: &Draft, sizes: &BTreeMap<String, usize>| match sizes["x_0"] % 8 {
            0 => Ok(()),
            _ => fail("x", 3),
        };
        assert_eq!(suppose(&draft, 1, by_eight).usual, 16);
    }

    #[test]
    fn sizes_are_smaller_as_soon_as_the_number_of_columns_is_known() {
        let draft = draft_function("at::Tensor x, at::Tensor boxes", "");
        let found = find_supposition(&draft, 1 << 20, |draft, sizes| {
            let shape = draft.shape_of("boxes");
            let columns = shape.get(1).map_or(0, |size| sizes[size]);
            if columns < 6 {
                return Ok::<Attempt, ()>(Attempt::Fault(fail("boxes", 0).unwrap_err()));
            }
            let rows = sizes[&shape[0]];
            let traces = TensorTraces {
                reach: BTreeMap::from([("boxes".to_owned(), 6 * rows)]),
                ..TensorTraces::default()
            };
            let is_crowded = rows > 8;
            Ok(Attempt::Accepted(AcceptedCall { traces, is_crowded, ..AcceptedCall::default() }))
        });
        let AcceptedShapes { supposition, fast, .. } = found.unwrap().unwrap();
        assert_eq!((supposition.usual, supposition.numbers.get("boxes_1")), (8, Some(&6)));
        assert_eq!(fast, 16, "only tensors are crowded with it");
    }

    #[test]
    fn a_search_ends_where_nothing_helps() {
        let draft = draft_function("at::Tensor x, at::Tensor y, at::Tensor z", "");
        let (shapes, tries) = search(&draft, |_| fail("x", 3));
        assert_eq!(shapes, None);
        assert!(tries <= ALIKE.len() + SEARCHED.len() * MOST_TRIES, "{tries}");
        let attempt = |_: &Draft, _: &BTreeMap<String, usize>| {
            Ok::<Attempt, ()>(Attempt::Hopeless { reason: "it does not compile".to_owned() })
        };
        assert!(find_supposition(&draft, 8, attempt).unwrap().is_none());
    }
}
