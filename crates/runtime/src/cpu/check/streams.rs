//! The order of launches, copies and fills.
//!
//! Work of one stream is in order. The default stream waits for all others and they for it, unless
//! they are non-blocking; events and the host's synchronisations order the rest (CUDA C++
//! Programming Guide, "Streams", "Implicit Synchronization"). Pure: streams and events are numbers.

use std::collections::HashMap;

/// By stream: how much of its work is known to be done.
type StreamProgress = HashMap<usize, u32>;

/// The default stream.
const DEFAULT: usize = 0;

/// The order of everything that host code has asked for.
#[derive(Default)]
pub(super) struct Streams {
    /// By operation, from 1: its stream and its number in it.
    operations: Vec<(usize, u32)>,
    /// By stream: the operations before its next one.
    streams: HashMap<usize, StreamProgress>,
    non_blocking: Vec<usize>,
    /// The operations the host has waited for.
    host: StreamProgress,
    events: HashMap<usize, StreamProgress>,
    /// The operations before the running one.
    current: StreamProgress,
}

impl Streams {
    /// `stream` and the default stream do not wait for each other.
    pub(super) fn set_non_blocking(&mut self, stream: usize) {
        self.non_blocking.push(stream);
    }

    /// The next operation, in `stream`: its number, from 1.
    pub(super) fn begin(&mut self, stream: usize) -> u32 {
        let mut known_progress = self.stream_progress(stream);
        join_stream_progress(&mut known_progress, &self.host);
        if stream == DEFAULT {
            let blocking =
                |candidate_stream: &&usize| !self.non_blocking.contains(candidate_stream);
            let blocking_streams: Vec<usize> =
                self.streams.keys().filter(blocking).copied().collect();
            blocking_streams.iter().for_each(|&blocking_stream| {
                join_stream_progress(&mut known_progress, &self.stream_progress(blocking_stream))
            });
        } else if !self.non_blocking.contains(&stream) {
            join_stream_progress(&mut known_progress, &self.stream_progress(DEFAULT));
        }
        self.current = known_progress.clone();
        let number = known_progress.get(&stream).copied().unwrap_or(0) + 1;
        known_progress.insert(stream, number);
        self.streams.insert(stream, known_progress);
        self.operations.push((stream, number));
        self.operations.len() as u32
    }

    /// Whether operation `earlier` ends before the running one begins.
    pub(super) fn follows(&self, earlier: u32) -> bool {
        let Some(&(stream, number)) = self.operations.get((earlier as usize).wrapping_sub(1))
        else {
            return true;
        };
        self.current.get(&stream).is_some_and(|&done_number| done_number >= number)
    }

    /// Whether every earlier operation ends before the running one begins.
    pub(super) fn follows_all(&self) -> bool {
        let own_stream = self.operations.last().map(|&(stream, _)| stream);
        self.streams.iter().all(|(stream, known_progress)| {
            let last = known_progress.get(stream).copied().unwrap_or(0)
                - u32::from(own_stream == Some(*stream));
            self.current.get(stream).copied().unwrap_or(0) >= last
        })
    }

    /// The host waits for `stream`, or for everything.
    pub(super) fn synchronize(&mut self, stream: Option<usize>) {
        let waited: Vec<usize> = match stream {
            Some(stream) => vec![stream],
            None => self.streams.keys().copied().collect(),
        };
        waited.iter().for_each(|&stream| {
            let known_progress = self.stream_progress(stream);
            join_stream_progress(&mut self.host, &known_progress);
        });
    }

    /// `event` stands for everything in `stream` so far.
    pub(super) fn record(&mut self, event: usize, stream: usize) {
        let mut known_progress = self.stream_progress(stream);
        if stream == DEFAULT {
            // Recorded in the default stream it waits for all blocking streams.
            let all_streams: Vec<usize> = self.streams.keys().copied().collect();
            let blocking = all_streams
                .iter()
                .filter(|candidate_stream| !self.non_blocking.contains(candidate_stream));
            blocking.for_each(|&blocking_stream| {
                join_stream_progress(&mut known_progress, &self.stream_progress(blocking_stream))
            });
        }
        self.events.insert(event, known_progress);
    }

    /// Everything in `stream` from now on comes after `event`.
    pub(super) fn wait(&mut self, stream: usize, event: usize) {
        let event_progress = self.events.get(&event).cloned().unwrap_or_default();
        join_stream_progress(self.streams.entry(stream).or_default(), &event_progress);
    }

    /// The host waits for `event`.
    pub(super) fn wait_on_host(&mut self, event: usize) {
        let event_progress = self.events.get(&event).cloned().unwrap_or_default();
        join_stream_progress(&mut self.host, &event_progress);
    }

    fn stream_progress(&self, stream: usize) -> StreamProgress {
        self.streams.get(&stream).cloned().unwrap_or_default()
    }
}

fn join_stream_progress(known_progress: &mut StreamProgress, other_progress: &StreamProgress) {
    for (&stream, &done_number) in other_progress {
        let entry = known_progress.entry(stream).or_default();
        *entry = done_number.max(*entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_in_order_and_others_are_not() {
        let mut streams = Streams::default();
        let first = streams.begin(1);
        streams.begin(1);
        assert!(streams.follows(first) && streams.follows_all());
        streams.begin(2);
        assert!(!streams.follows(first) && !streams.follows_all());
    }

    #[test]
    fn the_default_stream_waits_for_those_that_block() {
        let mut streams = Streams::default();
        streams.set_non_blocking(2);
        let blocking = streams.begin(1);
        let free = streams.begin(2);
        let default = streams.begin(DEFAULT);
        assert!(streams.follows(blocking) && !streams.follows(free));
        streams.begin(1);
        assert!(streams.follows(default));
        streams.begin(2);
        assert!(!streams.follows(default));
    }

    #[test]
    fn an_event_orders_what_was_asked_for_before_it_was_recorded() {
        let mut streams = Streams::default();
        let before = streams.begin(1);
        streams.record(7, 1);
        let after = streams.begin(1);
        streams.wait(2, 7);
        streams.begin(2);
        assert!(streams.follows(before) && !streams.follows(after));
    }

    #[test]
    fn a_host_that_waited_orders_what_it_asks_for_next() {
        let mut streams = Streams::default();
        let one = streams.begin(1);
        let two = streams.begin(2);
        streams.synchronize(Some(1));
        streams.begin(3);
        assert!(streams.follows(one) && !streams.follows(two));
        streams.synchronize(None);
        streams.begin(4);
        assert!(streams.follows(two));
    }
}
