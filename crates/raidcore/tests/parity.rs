//! Every set of kernels against independent definitions.

use det::Prng;
use proptest::prelude::*;
use raidcore::parity::{Culprit, GRAIN, Kernels, culprit, gf, majority};

/// The product by the schoolbook: shifted addends, then division by the polynomial.
fn product(a: u8, b: u8) -> u8 {
    let mut sum: u16 = 0;
    for bit in 0..8 {
        sum ^= (u16::from(a) << bit) * u16::from(b >> bit & 1);
    }
    for bit in (8..16).rev() {
        sum ^= (0x11d << (bit - 8)) * (sum >> bit & 1);
    }
    sum as u8
}

fn weight(index: usize) -> u8 {
    (0..index).fold(1, |power, _| product(power, 2))
}

/// P and Q by their definition. Chunks are given with their indices.
fn parity<'a>(len: usize, chunks: impl IntoIterator<Item = (usize, &'a [u8])>) -> [Vec<u8>; 2] {
    let (mut p, mut q) = (vec![0; len], vec![0; len]);
    for (index, chunk) in chunks {
        let weight = weight(index);
        for (at, &byte) in chunk.iter().enumerate() {
            p[at] ^= byte;
            q[at] ^= product(weight, byte);
        }
    }
    [p, q]
}

fn random(prng: &mut Prng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    prng.fill(&mut bytes);
    bytes
}

fn chunks(prng: &mut Prng, count: usize, len: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| random(prng, len)).collect()
}

/// Lengths that take every path of the kernels: words, vectors, unrolled steps and their remainders.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![0..40usize, 40..200usize].prop_map(|words| words * GRAIN)
}

#[test]
fn field_agrees_with_the_schoolbook() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(gf::mul(a, b), product(a, b), "{a} * {b}");
        }
        if a != 0 {
            assert_eq!(product(a, gf::inv(a)), 1, "1 / {a}");
            assert_eq!(weight(gf::log2(a)), a, "log {a}");
            assert!(gf::log2(a) < 255, "log {a}");
        }
        assert_eq!(gf::pow2(a.into()), weight(a.into()), "2^{a}");
    }
}

#[test]
fn scalar_comes_first_and_the_best_last() {
    let names: Vec<_> = Kernels::available().map(|set| set.name).collect();
    assert_eq!(names[0], "scalar");
    assert_eq!(names[names.len() - 1], Kernels::best().name);
}

#[test]
fn scale_by_every_constant() {
    let all: Vec<u8> = (0..=255).cycle().take(1024 + 64 + GRAIN).collect();
    for set in Kernels::available() {
        for c in 0..=255 {
            let mut scaled = all.clone();
            set.scale(&mut scaled, c);
            let expected: Vec<u8> = all.iter().map(|&byte| product(c, byte)).collect();
            assert!(scaled == expected, "{}: times {c}", set.name);
        }
    }
}

#[test]
fn solve_every_pair() {
    const COUNT: usize = 30;
    const LEN: usize = 512 + 256 + 64 + GRAIN;
    let data = chunks(&mut Prng::new(1), COUNT, LEN);
    for set in Kernels::available() {
        for y in 0..COUNT {
            for x in 0..y {
                let [mut a, mut b] = parity(LEN, [(x, &data[x][..]), (y, &data[y][..])]);
                set.solve(&mut a, &mut b, x, y);
                assert!(a == data[x] && b == data[y], "{}: {x} and {y}", set.name);
            }
        }
    }
}

#[test]
fn equal_sees_every_bit() {
    const LEN: usize = 512 + 256 + 64 + GRAIN;
    let one = random(&mut Prng::new(2), LEN);
    for set in Kernels::available() {
        let mut other = one.clone();
        assert!(set.equal(&one, &other), "{}", set.name);
        for bit in 0..LEN * 8 {
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!set.equal(&one, &other), "{}: bit {bit}", set.name);
            other[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_number_of_sources() {
    const LEN: usize = 512 + 256 + 128 + 64 + GRAIN;
    let data = chunks(&mut Prng::new(3), 20, LEN);
    let srcs: Vec<&[u8]> = data.iter().map(|chunk| &chunk[..]).collect();
    let some: Vec<_> = srcs.iter().copied().map(Some).collect();
    for count in 0..=srcs.len() {
        let [p, q] = parity(LEN, srcs[..count].iter().copied().enumerate());
        for set in Kernels::available() {
            let (mut got_p, mut got_q) = (vec![1; LEN], vec![1; LEN]);
            set.xor(&mut got_p, &srcs[..count]);
            set.q(&mut got_q, &some[..count]);
            assert!(got_p == p && got_q == q, "{}: {count}, each alone", set.name);
            let (mut got_p, mut got_q) = (vec![1; LEN], vec![1; LEN]);
            set.pq(&mut got_p, &mut got_q, &some[..count]);
            assert!(got_p == p && got_q == q, "{}: {count}", set.name);
        }
    }
}

#[test]
fn no_sources_are_zeros() {
    for set in Kernels::available() {
        let (mut p, mut q) = (vec![1; 64], vec![1; 64]);
        set.xor(&mut p, &[]);
        set.q(&mut q, &[None, None]);
        assert!(p == [0; 64] && q == [0; 64], "{}", set.name);
        let (mut p, mut q) = (vec![1; 64], vec![1; 64]);
        set.pq(&mut p, &mut q, &[None; 30]);
        assert!(p == [0; 64] && q == [0; 64], "{}", set.name);
    }
}

#[test]
#[should_panic(expected = "slices of 64 and 56 bytes")]
fn lengths_that_differ_panic() {
    Kernels::best().xor(&mut [0; 64], &[&[0; 64], &[0; 56]]);
}

#[test]
#[should_panic(expected = "not whole words")]
fn broken_words_panic() {
    Kernels::best().scale(&mut [0; 12], 2);
}

/// All single errors that give these syndromes, by the definition.
fn explanations(p: &[u8], q: &[u8], data: usize) -> Vec<Culprit> {
    let zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    let of_data = |index: usize| {
        let [error, weighted] = parity(p.len(), [(index, p)]);
        error == p && weighted == q
    };
    let mut all: Vec<_> = (0..data).filter(|&z| of_data(z)).map(Culprit::Data).collect();
    all.extend(zero(q).then_some(Culprit::P));
    all.extend(zero(p).then_some(Culprit::Q));
    all
}

#[test]
fn a_single_culprit_is_found_by_any_byte() {
    const DATA: usize = 30;
    const LEN: usize = 64;
    let none = [0; LEN];
    assert_eq!(culprit(&none, &none, DATA), None);
    for at in [0, 1, 31, LEN - 1] {
        for error in 1..=255 {
            let mut wrong = none;
            wrong[at] = error;
            assert_eq!(culprit(&wrong, &none, DATA), Some(Culprit::P));
            assert_eq!(culprit(&none, &wrong, DATA), Some(Culprit::Q));
            for index in 0..DATA {
                let [p, q] = parity(LEN, [(index, &wrong[..])]);
                assert_eq!(culprit(&p, &q, DATA), Some(Culprit::Data(index)), "{error}");
                assert_eq!(culprit(&p, &q, index), Some(Culprit::Unknown), "there is no {index}");
            }
        }
    }
}

#[test]
fn a_majority_is_more_than_half() {
    let copies = |text: &'static str| -> Vec<Option<&[u8]>> {
        let copy = |byte: &'static u8| (*byte != b'-').then(|| std::slice::from_ref(byte));
        text.as_bytes().iter().map(copy).collect()
    };
    for (text, right) in [
        ("", None),
        ("---", None),
        ("a", Some(0)),
        ("ab", None),
        ("a-b", None),
        ("aab", Some(0)),
        ("baa", Some(1)),
        ("aba", Some(0)),
        ("abc", None),
        ("-bab", Some(1)),
        ("aabb", None),
        ("abab-", None),
        ("bcaaa", Some(2)),
        ("abcaa", Some(0)),
        ("aabcde", None),
    ] {
        assert_eq!(majority(&copies(text)), right, "{text}");
    }
}

proptest! {
    #[test]
    fn nobody_is_blamed_without_an_explanation(
        data in 2..=30usize,
        errors in prop::collection::vec((0..32usize, 0..24usize, 1..=255u8), 0..4),
    ) {
        let len = 24;
        let wrong = |index: usize| {
            let mut bytes = vec![0; len];
            for &(_, at, error) in errors.iter().filter(|&&(who, ..)| who % (data + 2) == index) {
                bytes[at] = error;
            }
            bytes
        };
        let chunks: Vec<_> = (0..data).map(wrong).collect();
        let [mut p, mut q] = parity(len, chunks.iter().map(|c| &c[..]).enumerate());
        p.iter_mut().zip(wrong(data)).for_each(|(p, error)| *p ^= error);
        q.iter_mut().zip(wrong(data + 1)).for_each(|(q, error)| *q ^= error);
        let possible = explanations(&p, &q, data);
        match culprit(&p, &q, data) {
            None => prop_assert!(p.iter().chain(&q).all(|&byte| byte == 0)),
            Some(Culprit::Unknown) => prop_assert_eq!(possible, []),
            Some(one) => prop_assert_eq!(possible, [one]),
        }
    }

    #[test]
    fn parities_of_any_sources(
        seed: u64,
        len in lengths(),
        given in prop::collection::vec(prop::bool::weighted(0.8), 1..=30),
    ) {
        let mut prng = Prng::new(seed);
        let data = chunks(&mut prng, given.len(), len);
        let srcs: Vec<_> = data.iter().zip(&given).map(|(d, &is)| is.then_some(&d[..])).collect();
        let present: Vec<&[u8]> = srcs.iter().flatten().copied().collect();
        let [p, q] = parity(len, srcs.iter().enumerate().filter_map(|(i, s)| Some((i, (*s)?))));
        for set in Kernels::available() {
            let (mut got_p, mut got_q) = (random(&mut prng, len), random(&mut prng, len));
            set.pq(&mut got_p, &mut got_q, &srcs);
            prop_assert!(got_p == p, "{}: p of pq", set.name);
            prop_assert!(got_q == q, "{}: q of pq", set.name);
            got_q = random(&mut prng, len);
            set.q(&mut got_q, &srcs);
            prop_assert!(got_q == q, "{}: q", set.name);
            got_p = random(&mut prng, len);
            set.xor(&mut got_p, &present);
            prop_assert!(got_p == p, "{}: xor", set.name);
        }
    }

    #[test]
    fn changes_lead_to_the_parities_of_the_new(
        seed: u64,
        len in lengths(),
        index in 0..30usize,
        given in any::<[bool; 4]>(),
    ) {
        let [with_p, with_q, with_old, with_new] = given;
        let mut prng = Prng::new(seed);
        let zeros = vec![0; len];
        let [other, mut old, mut new] = std::array::from_fn(|_| random(&mut prng, len));
        if !with_old { old.clone_from(&zeros); }
        if !with_new { new.clone_from(&zeros); }
        let before = parity(len, [(31, &other[..]), (index, &old[..])]);
        let after = parity(len, [(31, &other[..]), (index, &new[..])]);
        for set in Kernels::available() {
            let [mut p, mut q] = before.clone();
            set.delta(
                with_p.then_some(&mut p[..]),
                with_q.then_some(&mut q[..]),
                index,
                with_old.then_some(&old[..]),
                with_new.then_some(&new[..]),
            );
            prop_assert!(p == if with_p { &after } else { &before }[0], "{}: p", set.name);
            prop_assert!(q == if with_q { &after } else { &before }[1], "{}: q", set.name);
        }
    }

    #[test]
    fn adding_twice_changes_nothing(seed: u64, len in lengths()) {
        let mut prng = Prng::new(seed);
        let (dst, src) = (random(&mut prng, len), random(&mut prng, len));
        let sum: Vec<u8> = dst.iter().zip(&src).map(|(a, b)| a ^ b).collect();
        for set in Kernels::available() {
            let mut got = dst.clone();
            set.add(&mut got, &src);
            prop_assert!(got == sum, "{}", set.name);
            set.add(&mut got, &src);
            prop_assert!(got == dst, "{}", set.name);
        }
    }
}
