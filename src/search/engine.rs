//! The search itself: the known answers, the next tests, and the conclusion.

use std::collections::{HashMap, HashSet};

use super::belief::{Belief, Rate};
use super::candidates::{Candidates, Place};
use super::ends::Ends;
use super::graph::Graph;
use super::pick::Field;
use super::reach::Reach;
use super::words::{Answer, Conclusion, Options, Phase, SearchError, State, Warning};

/// A search for the first bad commit; see the [module](super) for what it promises.
#[derive(Clone, Debug)]
pub struct Search {
    graph: Graph,
    options: Options,
    pub(super) ends: Ends,
    candidates: Candidates,
    known: HashMap<u32, Answer>,
    pub(super) in_flight: Vec<u32>,
    contradictions: Vec<u32>,
    answered: usize,
    jobs: usize,
    pub(super) view: Option<View>,
    belief: Option<Belief>,
}

/// The candidates left: the nodes that the bad node `focus` reaches and no good node does.
#[derive(Clone, Debug)]
pub(super) struct View {
    focus: u32,
    pub(super) reach: Reach,
}

impl Search {
    /// Starts a search between `good` and `bad` ends.
    ///
    /// # Errors
    /// [`SearchError`] if a side has no end or an end is not in the graph.
    pub fn new(
        graph: Graph,
        good: &[u32],
        bad: &[u32],
        options: Options,
    ) -> Result<Self, SearchError> {
        if good.is_empty() || bad.is_empty() {
            return Err(SearchError::MissingEnd);
        }
        if let Some(&commit) = good.iter().chain(bad).find(|&&end| end as usize >= graph.len()) {
            return Err(SearchError::UnknownEnd { commit, commits: graph.len() });
        }
        let mut search = Self {
            ends: Ends::new(&graph, good, bad, &options),
            candidates: Candidates::new(&graph, good, bad, &options),
            graph,
            options,
            known: HashMap::new(),
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
    pub(crate) fn with_flakiness(
        graph: Graph,
        good: &[u32],
        bad: &[u32],
        options: Options,
        (false_alarm, detection): (Rate, Rate),
    ) -> Result<Self, SearchError> {
        let options = Options { trust_ends: true, ..options };
        let mut search = Self::new(graph, good, bad, options)?;
        let count = search.view.as_ref().map_or(0, |view| view.reach.len());
        search.belief = Some(Belief::new(count, false_alarm, detection));
        Ok(search)
    }

    /// The graph searched.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The answer for the variant of `commit`, if it has one.
    pub fn known(&self, commit: u32) -> Option<Answer> {
        self.known.get(&self.variant(commit)).copied()
    }

    /// Up to `slots` commits to test now, besides those in flight; none if nothing can be
    /// started before an answer comes.
    ///
    /// Where `cached` says that the outcome of a commit is at hand, that commit is preferred if
    /// it divides the candidates nearly as well as the best.
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
    pub fn answer(&mut self, commit: u32, answer: Answer) {
        if commit as usize >= self.graph.len() {
            return;
        }
        self.answered += 1;
        self.cancel(commit);
        if self.belief.is_some() {
            self.observe(commit, answer);
            return;
        }
        let variant = self.variant(commit);
        let known = self.known.get(&variant).copied();
        match (known, answer) {
            (Some(Answer::Good), Answer::Bad) | (Some(Answer::Bad), Answer::Good) => {
                self.contradictions.push(commit);
            }
            (Some(Answer::Good | Answer::Bad), _) => {}
            _ => {
                self.known.insert(variant, answer);
            }
        }
        self.refresh();
    }

    /// Commits in flight whose answer no longer matters; stop them and [`cancel`](Self::cancel).
    pub(crate) fn obsolete(&self) -> Vec<u32> {
        let all = || self.in_flight.clone();
        if self.outcome().is_some() {
            return all();
        }
        let needed: HashSet<u32> = match self.phase() {
            Phase::Narrowing if self.belief.is_none() => self.local_variants(),
            Phase::Confirming => self.unconfirmed().into_iter().map(|c| self.variant(c)).collect(),
            _ => return Vec::new(),
        };
        let needless = |commit: &u32| {
            self.known(*commit).is_some() || !needed.contains(&self.variant(*commit))
        };
        all().into_iter().filter(needless).collect()
    }

    /// Forgets that `commit` is in flight.
    pub(crate) fn cancel(&mut self, commit: u32) {
        if let Some(at) = self.in_flight.iter().position(|&other| other == commit) {
            self.in_flight.swap_remove(at);
        }
    }

    /// How far the search is.
    pub fn state(&self) -> State {
        let candidates = self.view.as_ref().map_or(0, |view| view.reach.len());
        State {
            phase: self.phase(),
            candidates,
            rounds: rounds(candidates, self.jobs),
            answered: self.answered,
            in_flight: self.in_flight.clone(),
        }
    }

    /// The warnings besides the conclusion.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let unclear = |base: &u32| matches!(self.known(*base), Some(Answer::Skip | Answer::Other));
        let bases = self.ends.merge_bases.iter().copied().filter(unclear);
        let mut out: Vec<Warning> =
            bases.map(|base| Warning::UntestableMergeBase { base }).collect();
        out.extend(self.contradictions.iter().map(|&commit| Warning::Contradiction { commit }));
        if let Some(Conclusion::Found { culprit, .. } | Conclusion::Probable { culprit, .. }) =
            self.outcome()
        {
            let explains = |bad: u32| self.graph.ancestors(&[bad], false)[culprit as usize];
            let rest = self.ends.bad.iter().copied().filter(|&bad| !explains(bad));
            out.extend(rest.map(|bad| Warning::Unexplained { bad }));
        }
        out
    }

    /// The conclusion, once there is one.
    pub fn outcome(&self) -> Option<Conclusion> {
        if let Some(refusal) = self.ends.refusal(|commit| self.known(commit)) {
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
        for (ends, answer) in [(&self.ends.good, Answer::Good), (&self.ends.bad, Answer::Bad)] {
            for &end in ends {
                let variant = self.variant(end);
                self.known.insert(variant, answer);
            }
        }
    }

    fn commit_at(&self, view: &View, local: u32) -> u32 {
        self.candidates.commits[view.reach.nodes[local as usize] as usize]
    }

    pub(super) fn local(&self, commit: u32) -> Option<u32> {
        let Place::Node(node) = self.candidates.place[commit as usize] else { return None };
        self.view.as_ref()?.reach.local(node)
    }

    fn node_known(&self, node: usize) -> Option<Answer> {
        self.known(self.candidates.commits[node])
    }

    /// Ends without an answer; once all of them have one, merge bases without an answer.
    fn unanswered_ends(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        if self.ends.both().any(|end| self.known(end).is_none()) {
            return Box::new(self.ends.both().filter(|&end| self.known(end).is_none()));
        }
        let bases = self.ends.merge_bases.iter().copied();
        Box::new(bases.filter(|&base| self.known(base).is_none()))
    }

    pub(super) fn phase(&self) -> Phase {
        if self.outcome().is_some() {
            return Phase::Done;
        }
        match self.unanswered_ends().next() {
            Some(_) if self.belief.is_some() => Phase::Narrowing,
            Some(end) if self.ends.both().any(|other| other == end) => Phase::Ends,
            Some(_) => Phase::MergeBases,
            None if self.state_len() == 1 => Phase::Confirming,
            None => Phase::Narrowing,
        }
    }

    fn state_len(&self) -> usize {
        self.view.as_ref().map_or(0, |view| view.reach.len())
    }

    /// Commits that have to be tested whatever the candidates are, one a variant.
    fn required(&self, phase: Phase) -> Vec<u32> {
        let mut seen: HashSet<u32> = self.in_flight.iter().map(|&c| self.variant(c)).collect();
        let wanted = match phase {
            Phase::Confirming => self.unconfirmed(),
            _ => self.unanswered_ends().collect(),
        };
        wanted.into_iter().filter(|&commit| seen.insert(self.variant(commit))).collect()
    }

    /// The parents without an answer of the only candidate left.
    fn unconfirmed(&self) -> Vec<u32> {
        let Some(view) = &self.view else { return Vec::new() };
        let culprit = self.candidates.commits[view.focus as usize];
        let parents = self.graph.followed(culprit, self.options.first_parent).iter().copied();
        parents.filter(|&parent| self.known(parent).is_none()).collect()
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
        let known: Vec<Option<Answer>> = commits.iter().map(|&c| self.known(c)).collect();
        let variant: Vec<u32> = commits.iter().map(|&c| self.variant(c)).collect();
        let free: Vec<bool> =
            known.iter().zip(&variant).map(|(k, v)| k.is_none() && !busy.contains(v)).collect();
        let blocked =
            known.iter().map(|k| matches!(k, Some(Answer::Skip | Answer::Other))).collect();
        let cached = commits.iter().zip(&free).map(|(&c, free)| *free && cached(c)).collect();
        let field = Field { reach: &view.reach, free, blocked, cached, variant };
        let in_flight: Vec<u32> =
            self.in_flight.iter().filter_map(|&commit| self.local(commit)).collect();
        let picks = field.choose(&in_flight, slots);
        picks.into_iter().map(|local| commits[local as usize]).collect()
    }

    fn flaky_picks(&self, slots: usize) -> Vec<u32> {
        let (Some(view), Some(belief)) = (&self.view, &self.belief) else { return Vec::new() };
        let testable = |commit: u32| self.known(commit).is_none_or(|k| k == Answer::Bad);
        let bad = self.commit_at(view, view.reach.len() as u32 - 1);
        if !belief.rates_are_clear() {
            let waiting = |end: &[u32]| self.in_flight.iter().filter(|c| end.contains(c)).count();
            let (at_good, at_bad) = (waiting(&self.ends.good), waiting(&[bad]));
            return belief.end_picks(&self.ends.good, bad, (at_good, at_bad), slots);
        }
        let free: Vec<bool> = (0..view.reach.len() as u32)
            .map(|local| testable(self.commit_at(view, local)))
            .collect();
        let in_flight: Vec<u32> =
            self.in_flight.iter().filter_map(|&commit| self.local(commit)).collect();
        let picks = belief.picks(&view.reach, &free, &in_flight, slots);
        let commit =
            |pick: Option<u32>| pick.map_or(self.ends.good[0], |local| self.commit_at(view, local));
        picks.into_iter().map(commit).collect()
    }

    fn observe(&mut self, commit: u32, answer: Answer) {
        let bad = match answer {
            Answer::Good => false,
            Answer::Bad => true,
            Answer::Skip | Answer::Other => {
                let variant = self.variant(commit);
                self.known.insert(variant, answer);
                return;
            }
        };
        let (Some(view), Some(belief)) = (&self.view, &mut self.belief) else { return };
        let local = match self.candidates.place[commit as usize] {
            Place::Node(node) => view.reach.local(node),
            Place::Outside | Place::Leaves(_) => None,
        };
        match local {
            Some(local) => belief.observe(&view.reach.from(local), bad),
            None if self.ends.good.contains(&commit) => belief.observe_good_end(bad),
            None => return,
        }
        if local == Some(view.reach.len() as u32 - 1) {
            belief.count_bad_end(bad);
        }
    }

    /// Recomputes the candidates left from what is known.
    fn refresh(&mut self) {
        let parents = &self.candidates.parents;
        let mut good = vec![false; parents.len()];
        for node in (0..parents.len()).rev() {
            if good[node] || self.node_known(node) == Some(Answer::Good) {
                good[node] = true;
                parents[node].iter().for_each(|&parent| good[parent as usize] = true);
            }
        }
        let reach = |focus: u32| reachable(parents, focus, &good);
        let smallest = self.lowest_bad(&good).into_iter().map(|node| (node, reach(node)));
        let best = smallest.min_by_key(|(_, keep)| keep.iter().filter(|&&k| k).count());
        self.view = best.map(|(focus, keep)| View { focus, reach: Reach::new(parents, &keep) });
    }

    /// Bad nodes that reach no other bad node. The search goes on below the one that leaves
    /// fewest candidates: some commit there is bad with good parents, whatever other bad ends
    /// there are. A bound on how many are compared keeps this linear.
    fn lowest_bad(&self, good: &[bool]) -> Vec<u32> {
        const COMPARED: usize = 64;
        let parents = &self.candidates.parents;
        let claimed = self.claimed_bad();
        let mut above_bad = vec![false; parents.len()];
        let mut lowest = Vec::new();
        for node in (0..parents.len()).filter(|&node| !good[node]) {
            let above = parents[node].iter().any(|&p| !good[p as usize] && above_bad[p as usize]);
            let bad = match self.node_known(node) {
                None => claimed.contains(&(node as u32)),
                known => known == Some(Answer::Bad),
            };
            above_bad[node] = above || bad;
            if bad && !above && lowest.len() < COMPARED {
                lowest.push(node as u32);
            }
        }
        lowest
    }

    /// The nodes of bad ends, which count as bad until they are tested.
    fn claimed_bad(&self) -> Vec<u32> {
        let node = |&end: &u32| match self.candidates.place[end as usize] {
            Place::Node(node) => Some(node),
            Place::Outside | Place::Leaves(_) => None,
        };
        self.ends.bad.iter().filter_map(node).collect()
    }

    fn narrowed(&self, view: &View) -> Option<Conclusion> {
        let left = || (0..view.reach.len() as u32).map(|local| self.commit_at(view, local));
        if view.reach.len() > 1 {
            if left().any(|commit| self.known(commit).is_none()) {
                return None;
            }
            return Some(Conclusion::Hidden { candidates: left().collect() });
        }
        let culprit = self.candidates.commits[view.focus as usize];
        let parents = self.graph.followed(culprit, self.options.first_parent);
        let are = |wanted: fn(Option<Answer>) -> bool| -> Vec<u32> {
            parents.iter().copied().filter(|&parent| wanted(self.known(parent))).collect()
        };
        let bad_parents = are(|known| known == Some(Answer::Bad));
        if !bad_parents.is_empty() {
            return Some(Conclusion::NotMonotone { commit: culprit, bad_parents });
        }
        if !are(|known| known.is_none()).is_empty() {
            return None;
        }
        let unconfirmed_parents = are(|k| matches!(k, Some(Answer::Skip | Answer::Other)));
        Some(Conclusion::Found { culprit, unconfirmed_parents })
    }

    /// A bad end that changes nothing since a commit behind the good ends: that commit is as bad.
    fn nothing_left(&self) -> Conclusion {
        let leaves =
            self.ends.bad.iter().find_map(|&bad| match self.candidates.place[bad as usize] {
                Place::Leaves(commit) => Some(commit),
                Place::Node(_) | Place::Outside => None,
            });
        let commit = leaves.unwrap_or(self.ends.bad[0]);
        let parents = self.graph.followed(commit, self.options.first_parent).iter().copied();
        let same = |parent: &u32| self.variant(*parent) == self.variant(commit);
        Conclusion::NotMonotone { commit, bad_parents: parents.filter(same).collect() }
    }
}

/// Marks the nodes outside of `good` that `focus` reaches, itself included.
fn reachable(parents: &[Vec<u32>], focus: u32, good: &[bool]) -> Vec<bool> {
    let mut keep = vec![false; parents.len()];
    keep[focus as usize] = true;
    for node in (0..=focus as usize).rev().filter(|&node| !good[node]) {
        if keep[node] {
            parents[node].iter().for_each(|&parent| keep[parent as usize] = !good[parent as usize]);
        }
    }
    keep
}

/// The least `r` with `(jobs + 1)^r >= candidates`.
fn rounds(candidates: usize, jobs: usize) -> u32 {
    let mut divided = 1usize;
    let mut rounds = 0;
    while divided < candidates {
        divided = divided.saturating_mul(jobs + 1);
        rounds += 1;
    }
    rounds
}
