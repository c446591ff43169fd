//! Pictures of small tensors.

use super::*;
use replay_base::tensor::DType;

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn view<'a>(shape: &'a [usize], bytes: &'a [u8]) -> TensorView<'a> {
    TensorView { dtype: DType::F32, shape, bytes }
}

const NONE: NoiseRef<'static> = NoiseRef { base: None, got: None };

#[test]
fn a_map_keeps_the_worst_of_each_cell_and_classes_go_before_distances() {
    let shape = [100, 100];
    let old = vec![1f32; 10_000];
    let mut new = old.clone();
    let place = |row: usize, column: usize| row * 100 + column;
    new[place(0, 0)] = 1.0 + f32::EPSILON;
    new[place(0, 1)] = 1.5;
    new[place(50, 99)] = f32::NAN;
    new[place(99, 0)] = f32::INFINITY;
    let old = bytes(&old);
    let new = bytes(&new);
    let base = Some((view(&shape, &old), NONE));
    let scene = Scene { got: view(&shape, &new), again: None, base, oracle: None };
    let picture = Picture::draw(&scene);
    let Map { height, width, .. } = picture.map;
    assert_eq!([height, width], CELLS);
    let cell = |row: usize, column: usize| {
        picture.map.cells[(row * height / 100) * width + column * width / 100]
    };
    assert_eq!(cell(0, 0), Shade::Most, "the worse of two in one cell");
    assert_eq!(cell(50, 99), Shade::Nan);
    assert_eq!(cell(99, 0), Shade::Infinite);
    assert_eq!(picture.map.cells.iter().filter(|cell| **cell != Shade::Same).count(), 3);
    assert_eq!(picture.classes, Classes { nan: 1, inf: 1, ..Classes::default() });
    let distances = picture.distances.expect("there is a base");
    assert_eq!(distances.within.counts.iter().sum::<u64>(), 9_997);
    assert_eq!(distances.beyond.counts.iter().sum::<u64>(), 3);
    assert_eq!(*distances.beyond.counts.last().expect("it has buckets"), 2);
    assert!(picture.pairs.iter().any(|pair| pair.beyond && pair.got == 1.5));
    assert!(picture.pairs.len() <= PAIRS[0] + PAIRS[1]);
}

#[test]
fn what_nobody_wrote_and_what_depends_on_it_are_classes_of_their_own() {
    let mut first = vec![0; 16];
    let mut second = vec![0; 16];
    POISON_A.fill(&mut first[..4]);
    POISON_B.fill(&mut second[..4]);
    second[4] = 1;
    let shape = [4];
    let got = view(&shape, &first);
    let again = Some(view(&shape, &second));
    let picture = Picture::draw(&Scene { got, again, base: None, oracle: None });
    let shades = [Shade::Unwritten, Shade::Dependent, Shade::Same, Shade::Same];
    assert_eq!(picture.map.cells, shades);
    assert_eq!(picture.classes, Classes { unwritten: 1, dependent: 1, ..Classes::default() });
    assert!(picture.distances.is_none() && picture.pairs.is_empty());
}

#[test]
fn errors_of_both_sides_are_counted_in_units_in_the_last_place() {
    let old = bytes(&[1.0, 1.0]);
    let new = bytes(&[1.0, 1.0 + 8.0 * f32::EPSILON]);
    let truth: Vec<u8> = [1f64, 1.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let shape = [2];
    let oracle = TensorView { dtype: DType::F64, shape: &shape, bytes: &truth };
    let base = Some((view(&shape, &old), NONE));
    let got = view(&shape, &new);
    let picture = Picture::draw(&Scene { got, again: None, base, oracle: Some(oracle) });
    let of = |errors: Option<BinaryHistogram>| -> Vec<(usize, u64)> {
        let counts = errors.expect("there is an oracle").counts;
        counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect()
    };
    assert_eq!(of(picture.base_errors), [(0, 2)]);
    let eight = of(picture.got_errors)[1];
    assert_eq!((BinaryHistogram::bound(eight.0), eight.1), (8.0, 1));
}

#[test]
fn a_picture_does_not_grow_with_its_tensor_and_none_is_too_small_for_one() {
    let none: [f32; 0] = [];
    for shape in [&[][..], &[0], &[3, 0], &[1], &[7], &[400, 300], &[2, 3, 5, 7]] {
        let len: usize = shape.iter().product();
        let old = bytes(&vec![1f32; len]);
        let new = bytes(&vec![2f32; len]);
        let scene = Scene {
            got: view(shape, &new),
            again: None,
            base: Some((view(shape, &old), NONE)),
            oracle: Some(view(shape, &old)),
        };
        let text = serde_json::to_string(&Picture::draw(&scene)).expect("plain data");
        assert!(text.len() < 20_000, "{shape:?}: {}", text.len());
        let again: Picture = serde_json::from_str(&text).expect("the same");
        assert_eq!(again, Picture::draw(&scene));
    }
    assert!(bytes(&none).is_empty());
}
