//! Planted classes are named as what they are, and nothing beyond them.

use proptest::prelude::*;

use super::*;
use replay_base::tensor::DType;

fn dims(sizes: &[(&str, usize)]) -> Vec<Dim> {
    sizes.iter().map(|&(name, size)| Dim { name: Some(name.to_owned()), size }).collect()
}

fn class(sizes: &[(&str, usize)], belongs: impl Fn(&[usize]) -> bool + Sync) -> Bitmap {
    let shape: Vec<usize> = sizes.iter().map(|&(_, size)| size).collect();
    Bitmap::from_fn(shape.iter().product(), |i| belongs(&unravel_index(i, &shape)))
}

fn told(
    sizes: &[(&str, usize)],
    masks: &[Mask],
    belongs: impl Fn(&[usize]) -> bool + Sync,
) -> String {
    let location =
        locate_elements(&class(sizes, belongs), &dims(sizes), masks, &Scratch::heap()).unwrap();
    location.map_or("nowhere".to_owned(), |location| describe_location(&location))
}

const HEADS: &[(&str, usize)] = &[("batch", 2), ("head", 4), ("seq", 16)];
const LOGITS: &[(&str, usize)] = &[("batch", 2), ("seq", 4), ("vocab", 2004)];

#[test]
fn planted_slices_are_named() {
    insta::assert_snapshot!(told(HEADS, &[], |i| i[1] > 0), @"head 1..3");
    insta::assert_snapshot!(told(HEADS, &[], |i| i[1] == 2), @"head 2");
    insta::assert_snapshot!(told(LOGITS, &[], |i| i[2] >= 1024), @"vocab >= 1024");
    insta::assert_snapshot!(told(LOGITS, &[], |i| i[2] < 5), @"vocab <= 4");
    insta::assert_snapshot!(told(LOGITS, &[], |i| i[2] % 2 == 1), @"vocab % 2 = 1");
    insta::assert_snapshot!(told(HEADS, &[], |i| i[0] == 1 && i[2] % 8 == 3),
        @"batch 1, seq 3+11");
    insta::assert_snapshot!(told(HEADS, &[], |i| i[1] == 0 && i[2] >= 12),
        @"head 0, seq >= 12");
    insta::assert_snapshot!(told(HEADS, &[], |_| true), @"everywhere");
    insta::assert_snapshot!(told(HEADS, &[], |_| false), @"nowhere");
    insta::assert_snapshot!(told(&[], &[], |_| true), @"everywhere");
}

#[test]
fn what_is_no_slice_is_counted_and_shown_by_example() {
    insta::assert_snapshot!(told(HEADS, &[], |i| i == [0, 1, 5] || i == [1, 3, 2]),
        @"2 of 8 elements of head 1+3, seq 2+5, in 2 of 4 rows: batch 0, head 1, seq 5; batch 1, head 3, seq 2");
    insta::assert_snapshot!(told(LOGITS, &[], |i| i[2] != i[1]),
        @"16024 of 16032 elements, in 8 of 8 rows, first at batch 0, seq 0, vocab 1");
}

#[test]
fn rows_are_told_by_the_mask_that_selects_them() {
    let bytes = [1, 1, 0, 1, 0, 0, 1, 1];
    let view = TensorView { dtype: DType::U8, shape: &[2, 4], bytes: &bytes };
    let masks = [Mask { name: "mask", view, dims: &[0, 1] }];
    let zero = |i: &[usize]| bytes[i[0] * 4 + i[1]] == 0;
    insta::assert_snapshot!(told(LOGITS, &masks, zero), @"rows with mask = 0");
    insta::assert_snapshot!(told(LOGITS, &masks, |i| !zero(i) && i[2] >= 34),
        @"vocab >= 34, rows with mask != 0");
    insta::assert_snapshot!(told(LOGITS, &masks, |i| !zero(i) && i[2] != 7),
        @"10015 of 10020 elements of rows with mask != 0, in 5 of 5 rows, first at batch 0, seq 0, vocab 0");
}

#[test]
fn a_map_that_is_the_same_all_over_is_none() {
    let whole = block_map(&class(HEADS, |_| true), &[2, 4, 16]);
    assert_eq!(whole, vec!["#".repeat(16); 8].join("\n"));
    assert!(!has_shape(&whole) && !has_shape("++\n++") && !has_shape("#") && !has_shape(""));
    assert!(has_shape("##\n# ") && has_shape("+#"));
}

#[test]
fn a_block_map_shows_shares() {
    let sizes = [("row", 4), ("column", 64)];
    let map = block_map(&class(&sizes, |i| i[1] >= 32 || (i[0] == 1 && i[1] % 2 == 0)), &[4, 64]);
    insta::assert_snapshot!(map.replace(' ', "-"), @r"
    ----------------################
    ::::::::::::::::################
    ----------------################
    ----------------################
    ");
    assert_eq!(block_map(&Bitmap::from_fn(0, |_| true), &[3, 0]), "");
}

fn selections() -> impl Strategy<Value = (Vec<usize>, Vec<(usize, usize, usize)>)> {
    prop::collection::vec(1usize..9, 0..4).prop_flat_map(|shape| {
        let one = |&size: &usize| (0..size, 0..size, 1usize..4);
        let each: Vec<_> = shape.iter().map(one).collect();
        (Just(shape), each)
    })
}

proptest! {
    #[test]
    fn a_product_of_selections_is_found_exactly((shape, picks) in selections()) {
        let picked = |index: &[usize]| index.iter().zip(&picks).all(|(&i, &(a, b, step))| {
            i >= a.min(b) && i <= a.max(b) && (i - a.min(b)).is_multiple_of(step)
        });
        let dims: Vec<Dim> = shape.iter().map(|&size| Dim { name: None, size }).collect();
        let len = shape.iter().product();
        let class = Bitmap::from_fn(len, |i| picked(&unravel_index(i, &shape)));
        let location = locate_elements(&class, &dims, &[], &Scratch::heap()).unwrap().unwrap();
        prop_assert!(location.is_exact());
        for i in 0..len {
            prop_assert_eq!(location.contains(&unravel_index(i, &shape), &[]), class.contains(i));
        }
    }

    #[test]
    fn no_claim_goes_beyond_the_class(bits in prop::collection::vec(any::<bool>(), 60),
                                      mask in prop::collection::vec(0u8..2, 12)) {
        let shape = [3usize, 4, 5];
        let class = Bitmap::from_fn(60, |i| bits[i] && mask[i / 5] == 1);
        let view = TensorView { dtype: DType::U8, shape: &[3, 4], bytes: &mask };
        let masks = [Mask { name: "mask", view, dims: &[0, 1] }];
        let dims: Vec<Dim> = shape.iter().map(|&size| Dim { name: None, size }).collect();
        let Some(location) = locate_elements(&class, &dims, &masks, &Scratch::heap()).unwrap() else {
            prop_assert_eq!(class.count(), 0);
            return Ok(());
        };
        let region: Vec<usize> =
            (0..60).filter(|&i| location.contains(&unravel_index(i, &shape), &masks)).collect();
        prop_assert_eq!(region.len() as u64, location.region_elements);
        prop_assert!(class.ones().all(|i| region.contains(&i)));
        if location.is_exact() {
            prop_assert!(region.iter().all(|&i| class.contains(i)));
        }
    }
}
