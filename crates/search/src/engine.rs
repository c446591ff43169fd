//! The search itself: the known answers, the next tests, and the conclusion.

use std::collections::{HashMap, HashSet};

use super::belief::{Belief, FlakyPick, Rate};
use super::candidates::{Candidates, ReducedPlace};
use super::ends::SearchBounds;
use super::graph::{Graph, GraphError};
use super::pick::CandidateFacts;
use super::reach::ReachGraph;
use super::words::{Conclusion, Options, Phase, SearchError, SearchState, TestAnswer, Warning};

/// A search for the first bad commit; the [module](super) lists its promises.
#[derive(Clone, Debug)]
pub struct Search {
    graph: Graph,
    options: Options,
    pub(super) ends: SearchBounds,
    candidates: Candidates,
    known: HashMap<u32, TestAnswer>,
    /// All answers, in their order.
    answers: Vec<(u32, TestAnswer)>,
    pub(super) in_flight: Vec<u32>,
    contradictions: Vec<u32>,
    answered: usize,
    jobs: usize,
    pub(super) view: Option<OpenCandidates>,
    belief: Option<Belief>,
}

/// The candidates left: the nodes within reach of the bad node `focus` and of no good node.
#[derive(Clone, Debug)]
pub(super) struct OpenCandidates {
    focus: u32,
    pub(super) reach: ReachGraph,
}

impl Search {
    /// Starts a search between `good_ends` and `bad_ends` ends.
    ///
    /// # Errors
    /// [`SearchError`] if a side has no end or an end is not in the graph.
    pub fn new(
        graph: Graph,
        good_ends: &[u32],
        bad_ends: &[u32],
        options: Options,
    ) -> Result<Self, SearchError> {
        if good_ends.is_empty() || bad_ends.is_empty() {
            return Err(SearchError::MissingEnd);
        }
        if let Some(&commit) =
            good_ends.iter().chain(bad_ends).find(|&&end| end as usize >= graph.len())
        {
            return Err(SearchError::UnknownEnd { commit, commits: graph.len() });
        }
        let mut search = Self {
            ends: SearchBounds::new(&graph, good_ends, bad_ends, &options),
            candidates: Candidates::new(&graph, good_ends, bad_ends, &options),
            graph,
            options,
            known: HashMap::new(),
            answers: Vec::new(),
            in_flight: Vec::new(),
            contradictions: Vec::new(),
            answered: 0,
            jobs: 1,
            view: None,
            belief: None,
        };
        if search.options.trust_ends {
            search.trust_ends();
        }
        search.refresh();
        Ok(search)
    }

    /// Starts a search whose tests are flaky: each answer is one observation, commits may be
    /// tested again, and the conclusion is [`Conclusion::Probable`].
    ///
    /// `false_alarm` is the prior for how often a good commit tests bad, `detection` for how often
    /// a bad one does. [`Rate::unknown`] is fine for both: the ends are tested until they can be
    /// told apart.
    ///
    /// # Errors
    /// As [`Search::new`].
    pub fn with_flakiness(
        graph: Graph,
        good_ends: &[u32],
        bad_ends: &[u32],
        options: Options,
        (false_alarm, detection): (Rate, Rate),
    ) -> Result<Self, SearchError> {
        let options = Options { trust_ends: true, ..options };
        let mut search = Self::new(graph, good_ends, bad_ends, options)?;
        let count = search.view.as_ref().map_or(0, |view| view.reach.len());
        search.belief = Some(Belief::new(count, false_alarm, detection));
        Ok(search)
    }

    /// The graph searched.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The answer for the variant of `commit`, if it has one.
    pub fn known_answer(&self, commit: u32) -> Option<TestAnswer> {
        self.known.get(&self.variant(commit)).copied()
    }

    /// Up to `slots` commits to test now, besides those in flight; none if nothing can be
    /// started before an answer comes.
    ///
    /// A commit with a `cached` outcome is preferred if it divides the candidates nearly as well as the best.
    pub fn next(&mut self, slots: usize, cached: &dyn Fn(u32) -> bool) -> Vec<u32> {
        self.jobs = (slots + self.in_flight.len()).max(1);
        let mut picks = match self.phase() {
            Phase::Done => Vec::new(),
            _ if self.belief.is_some() => self.flaky_picks(slots),
            Phase::Narrowing => self.dividing_picks(slots, cached),
            phase => self.required(phase),
        };
        picks.truncate(slots);
        self.in_flight.extend(&picks);
        if let Some(belief) = &mut self.belief
            && slots > 0
            && self.in_flight.is_empty()
        {
            belief.give_up();
        }
        picks
    }

    /// Takes the answer for `commit`, whether it was asked for or not.
    pub fn answer(&mut self, commit: u32, answer: TestAnswer) {
        if commit as usize >= self.graph.len() {
            return;
        }
        self.answered += 1;
        self.answers.push((commit, answer));
        self.cancel(commit);
        if self.belief.is_some() {
            self.observe(commit, answer);
            return;
        }
        let variant = self.variant(commit);
        let known_answer = self.known.get(&variant).copied();
        match (known_answer, answer) {
            (Some(TestAnswer::Good), TestAnswer::Bad)
            | (Some(TestAnswer::Bad), TestAnswer::Good) => {
                self.contradictions.push(commit);
            }
            (Some(TestAnswer::Good | TestAnswer::Bad), _) => {}
            _ => {
                self.known.insert(variant, answer);
            }
        }
        self.refresh();
    }

    /// Goes on with other variants of the commits: what was found out meanwhile joins or parts them. Answers hold for the
    /// variants of the commits that were tested.
    ///
    /// # Errors
    /// [`GraphError`] if there is not one variant for each commit.
    ///
    /// # Panics
    /// If the search is one of flaky tests.
    pub fn regroup(&mut self, variant: Vec<u32>) -> Result<(), GraphError> {
        assert!(self.belief.is_none(), "flaky tests are observations of single commits");
        let graph = self.graph.with_variants(variant)?;
        let answers = std::mem::take(&mut self.answers);
        let SearchBounds { good, bad, .. } = &self.ends;
        self.ends = SearchBounds::new(&graph, good, bad, &self.options);
        self.candidates = Candidates::new(&graph, &self.ends.good, &self.ends.bad, &self.options);
        self.graph = graph;
        self.known.clear();
        self.contradictions.clear();
        self.answered = 0;
        self.view = None;
        if self.options.trust_ends {
            self.trust_ends();
        }
        self.refresh();
        for (commit, answer) in answers {
            self.answer(commit, answer);
        }
        Ok(())
    }

    /// Commits in flight whose answer no longer matters; stop them and [`cancel`](Self::cancel).
    pub fn obsolete(&self) -> Vec<u32> {
        if self.outcome().is_some() {
            return self.in_flight.clone();
        }
        let needed: HashSet<u32> = match self.phase() {
            Phase::Narrowing if self.belief.is_none() => self.local_variants(),
            Phase::Confirming => self.unconfirmed().into_iter().map(|c| self.variant(c)).collect(),
            _ => return Vec::new(),
        };
        let needless = self.in_flight.iter().copied().filter(|&commit| {
            self.known_answer(commit).is_some() || !needed.contains(&self.variant(commit))
        });
        needless.collect()
    }

    /// Takes `commit` out of those in flight.
    pub fn cancel(&mut self, commit: u32) {
        if let Some(index) =
            self.in_flight.iter().position(|&running_commit| running_commit == commit)
        {
            self.in_flight.swap_remove(index);
        }
    }

    /// How far the search is.
    pub fn state(&self) -> SearchState {
        let candidates = self.view.as_ref().map_or(0, |view| view.reach.len());
        SearchState {
            phase: self.phase(),
            candidates,
            rounds: count_search_rounds(candidates, self.jobs),
            answered: self.answered,
            in_flight: self.in_flight.clone(),
        }
    }

    /// The warnings besides the conclusion.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut out = Vec::new();
        for &base in &self.ends.merge_bases {
            if self.known_answer(base).is_some_and(TestAnswer::is_unclear) {
                out.push(Warning::UntestableMergeBase { base });
            }
        }
        out.extend(self.contradictions.iter().map(|&commit| Warning::Contradiction { commit }));
        if let Some(Conclusion::Found { culprit, .. } | Conclusion::Probable { culprit, .. }) =
            self.outcome()
        {
            for &bad in &self.ends.bad {
                if !self.graph.ancestors(&[bad], false)[culprit as usize] {
                    out.push(Warning::Unexplained { bad });
                }
            }
        }
        out
    }

    /// The conclusion, once there is one.
    pub fn outcome(&self) -> Option<Conclusion> {
        if let Some(refusal) = self.ends.refusal(|commit| self.known_answer(commit)) {
            return Some(Conclusion::Refused(refusal));
        }
        if self.belief.is_none() && self.unanswered_ends().next().is_some() {
            return None;
        }
        let Some(view) = &self.view else { return Some(self.nothing_left()) };
        match &self.belief {
            Some(belief) => belief.conclude(|local| self.commit_at(view, local)),
            None => self.narrowed(view),
        }
    }

    pub(super) fn variant(&self, commit: u32) -> u32 {
        match self.graph.variant(commit) {
            Some(variant) if self.options.by_variant => variant,
            _ => commit,
        }
    }

    fn trust_ends(&mut self) {
        for (ends, answer) in
            [(&self.ends.good, TestAnswer::Good), (&self.ends.bad, TestAnswer::Bad)]
        {
            for &end in ends {
                let variant = self.variant(end);
                self.known.insert(variant, answer);
            }
        }
    }

    fn commit_at(&self, view: &OpenCandidates, local: u32) -> u32 {
        self.candidates.commits[view.reach.nodes[local as usize] as usize]
    }

    pub(super) fn local(&self, commit: u32) -> Option<u32> {
        self.view.as_ref()?.reach.local(self.candidates.place[commit as usize].node()?)
    }

    fn node_known(&self, node: usize) -> Option<TestAnswer> {
        self.known_answer(self.candidates.commits[node])
    }

    /// Ends without an answer; once all of them have one, merge bases without an answer.
    fn unanswered_ends(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        if self.ends.good_and_bad().any(|end| self.known_answer(end).is_none()) {
            return Box::new(
                self.ends.good_and_bad().filter(|&end| self.known_answer(end).is_none()),
            );
        }
        let bases = self.ends.merge_bases.iter().copied();
        Box::new(bases.filter(|&base| self.known_answer(base).is_none()))
    }

    pub(super) fn phase(&self) -> Phase {
        if self.outcome().is_some() {
            return Phase::Done;
        }
        match self.unanswered_ends().next() {
            Some(_) if self.belief.is_some() => Phase::Narrowing,
            Some(end) if self.ends.good_and_bad().any(|known_end| known_end == end) => Phase::Ends,
            Some(_) => Phase::MergeBases,
            None if self.state_len() == 1 => Phase::Confirming,
            None => Phase::Narrowing,
        }
    }

    fn state_len(&self) -> usize {
        self.view.as_ref().map_or(0, |view| view.reach.len())
    }

    /// Commits to test whatever the candidates are, one a variant.
    fn required(&self, phase: Phase) -> Vec<u32> {
        let mut seen_variants: HashSet<u32> =
            self.in_flight.iter().map(|&c| self.variant(c)).collect();
        let required_commits = match phase {
            Phase::Confirming => self.unconfirmed(),
            _ => self.unanswered_ends().collect(),
        };
        required_commits
            .into_iter()
            .filter(|&commit| seen_variants.insert(self.variant(commit)))
            .collect()
    }

    /// The parents without an answer of the only candidate left.
    fn unconfirmed(&self) -> Vec<u32> {
        let Some(view) = &self.view else { return Vec::new() };
        let culprit = self.candidates.commits[view.focus as usize];
        let parents = self.graph.followed(culprit, self.options.first_parent).iter().copied();
        parents.filter(|&parent| self.known_answer(parent).is_none()).collect()
    }

    fn local_variants(&self) -> HashSet<u32> {
        let Some(view) = &self.view else { return HashSet::new() };
        (0..view.reach.len() as u32).map(|l| self.variant(self.commit_at(view, l))).collect()
    }

    fn dividing_picks(&self, slots: usize, cached: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let Some(view) = &self.view else { return Vec::new() };
        let commits: Vec<u32> =
            (0..view.reach.len() as u32).map(|local| self.commit_at(view, local)).collect();
        let busy: HashSet<u32> = self.in_flight.iter().map(|&c| self.variant(c)).collect();
        let known_answers: Vec<Option<TestAnswer>> =
            commits.iter().map(|&c| self.known_answer(c)).collect();
        let variant: Vec<u32> = commits.iter().map(|&c| self.variant(c)).collect();
        let free: Vec<bool> = known_answers
            .iter()
            .zip(&variant)
            .map(|(k, v)| k.is_none() && !busy.contains(v))
            .collect();
        let blocked = known_answers
            .iter()
            .map(|known_answer| known_answer.is_some_and(TestAnswer::is_unclear))
            .collect();
        let cached = commits.iter().zip(&free).map(|(&c, is_free)| *is_free && cached(c)).collect();
        let facts = CandidateFacts { reach: &view.reach, free, blocked, cached, variant };
        let in_flight: Vec<u32> =
            self.in_flight.iter().filter_map(|&commit| self.local(commit)).collect();
        let picks = facts.choose(&in_flight, slots);
        picks.into_iter().map(|local| commits[local as usize]).collect()
    }

    fn flaky_picks(&self, slots: usize) -> Vec<u32> {
        let (Some(view), Some(belief)) = (&self.view, &self.belief) else { return Vec::new() };
        let bad_end = self.commit_at(view, view.reach.len() as u32 - 1);
        if !belief.rates_are_clear() {
            let good_ends = &self.ends.good;
            let at_good = self.in_flight.iter().filter(|commit| good_ends.contains(commit)).count();
            let at_bad = self.in_flight.iter().filter(|&&commit| commit == bad_end).count();
            return belief.end_picks(good_ends, bad_end, (at_good, at_bad), slots);
        }
        let is_free: Vec<bool> = (0..view.reach.len() as u32)
            .map(|local| match self.known_answer(self.commit_at(view, local)) {
                None | Some(TestAnswer::Bad) => true,
                Some(TestAnswer::Good | TestAnswer::Skip | TestAnswer::Other) => false,
            })
            .collect();
        let in_flight: Vec<u32> =
            self.in_flight.iter().filter_map(|&commit| self.local(commit)).collect();
        let picks = belief.picks(&view.reach, &is_free, &in_flight, slots);
        let commits = picks.into_iter().map(|pick| match pick {
            FlakyPick::Candidate(local) => self.commit_at(view, local),
            FlakyPick::GoodEnd => self.ends.good[0],
        });
        commits.collect()
    }

    fn observe(&mut self, commit: u32, answer: TestAnswer) {
        let is_bad = match answer {
            TestAnswer::Good => false,
            TestAnswer::Bad => true,
            TestAnswer::Skip | TestAnswer::Other => {
                let variant = self.variant(commit);
                self.known.insert(variant, answer);
                return;
            }
        };
        let (Some(view), Some(belief)) = (&self.view, &mut self.belief) else { return };
        let node = self.candidates.place[commit as usize].node();
        let local = node.and_then(|node| view.reach.local(node));
        match local {
            Some(local) => belief.observe(&view.reach.from(local), is_bad),
            None if self.ends.good.contains(&commit) => belief.observe_good_end(is_bad),
            None => return,
        }
        if local == Some(view.reach.len() as u32 - 1) {
            belief.count_bad_end(is_bad);
        }
    }

    /// Recomputes the candidates left from the known answers.
    fn refresh(&mut self) {
        let parents = &self.candidates.parents;
        let mut is_good = vec![false; parents.len()];
        for node in (0..parents.len()).rev() {
            if is_good[node] || self.node_known(node) == Some(TestAnswer::Good) {
                is_good[node] = true;
                parents[node].iter().for_each(|&parent| is_good[parent as usize] = true);
            }
        }
        let lowest_bad = self.lowest_bad(&is_good).into_iter();
        let best = lowest_bad
            .map(|node| (node, mark_reachable(parents, node, &is_good)))
            .min_by_key(|(_, keep)| keep.iter().filter(|&&is_kept| is_kept).count());
        self.view = best
            .map(|(focus, keep)| OpenCandidates { focus, reach: ReachGraph::new(parents, &keep) });
    }

    /// Bad nodes without another bad node in reach. The search goes on below the one with the fewest
    /// candidates: some commit there is bad with good parents, whatever other bad ends there are. A bound on
    /// the number of comparisons keeps this linear.
    fn lowest_bad(&self, is_good: &[bool]) -> Vec<u32> {
        const COMPARED: usize = 64;
        let parents = &self.candidates.parents;
        let claimed = self.claimed_bad();
        let mut above_bad = vec![false; parents.len()];
        let mut lowest = Vec::new();
        for node in (0..parents.len()).filter(|&node| !is_good[node]) {
            let follows_bad =
                parents[node].iter().any(|&p| !is_good[p as usize] && above_bad[p as usize]);
            let is_bad = match self.node_known(node) {
                None => claimed.contains(&(node as u32)),
                known_answer => known_answer == Some(TestAnswer::Bad),
            };
            above_bad[node] = follows_bad || is_bad;
            if is_bad && !follows_bad && lowest.len() < COMPARED {
                lowest.push(node as u32);
            }
        }
        lowest
    }

    /// The nodes of bad ends. They count as bad until they are tested.
    fn claimed_bad(&self) -> Vec<u32> {
        let places = self.ends.bad.iter().map(|&end| self.candidates.place[end as usize]);
        places.filter_map(ReducedPlace::node).collect()
    }

    fn narrowed(&self, view: &OpenCandidates) -> Option<Conclusion> {
        let locals = 0..view.reach.len() as u32;
        if locals.len() > 1 {
            let candidates = locals.map(|local| self.commit_at(view, local));
            if candidates.clone().any(|commit| self.known_answer(commit).is_none()) {
                return None;
            }
            return Some(Conclusion::Ambiguous { candidates: candidates.collect() });
        }
        let culprit = self.candidates.commits[view.focus as usize];
        let parents = self.graph.followed(culprit, self.options.first_parent);
        let mut bad_parents = Vec::new();
        let mut unconfirmed_parents = Vec::new();
        let mut is_open = false;
        for &parent in parents {
            match self.known_answer(parent) {
                None => is_open = true,
                Some(TestAnswer::Good) => {}
                Some(TestAnswer::Bad) => bad_parents.push(parent),
                Some(TestAnswer::Skip | TestAnswer::Other) => unconfirmed_parents.push(parent),
            }
        }
        if !bad_parents.is_empty() {
            Some(Conclusion::NotMonotone { commit: culprit, bad_parents })
        } else if is_open {
            None
        } else {
            Some(Conclusion::Found { culprit, unconfirmed_parents })
        }
    }

    /// A bad end with the sources of a commit behind the good ends: then both are bad.
    fn nothing_left(&self) -> Conclusion {
        let leaves = self.ends.bad.iter().find_map(|&bad_end| {
            match self.candidates.place[bad_end as usize] {
                ReducedPlace::Leaves(commit) => Some(commit),
                ReducedPlace::Node(_) | ReducedPlace::Outside => None,
            }
        });
        let commit = leaves.unwrap_or(self.ends.bad[0]);
        let parents = self.graph.followed(commit, self.options.first_parent).iter().copied();
        let bad_parents =
            parents.filter(|&parent| self.variant(parent) == self.variant(commit)).collect();
        Conclusion::NotMonotone { commit, bad_parents }
    }
}

/// Marks the nodes in reach of `focus`, itself included, outside of `is_good`.
fn mark_reachable(parents: &[Vec<u32>], focus: u32, is_good: &[bool]) -> Vec<bool> {
    let mut keep = vec![false; parents.len()];
    keep[focus as usize] = true;
    for node in (0..=focus as usize).rev().filter(|&node| !is_good[node]) {
        if keep[node] {
            parents[node]
                .iter()
                .for_each(|&parent| keep[parent as usize] = !is_good[parent as usize]);
        }
    }
    keep
}

/// The least `r` with `(jobs + 1)^r >= candidates`.
fn count_search_rounds(candidates: usize, jobs: usize) -> u32 {
    let mut divided = 1usize;
    let mut rounds = 0;
    while divided < candidates {
        divided = divided.saturating_mul(jobs + 1);
        rounds += 1;
    }
    rounds
}
