//! Simulated maps of tools and context: cliffs are found in their cell at the planned number of items,
//! and cells without one are rarely said to be worse.

use std::sync::Arc;

use rayon::prelude::*;
use sobench_core::case::{Case, Prompt, Turn};
use sobench_core::verdict::{Reason, ToolCallFault, Verdict};
use sobench_facts::testing::{TestRequest, test_request, with_cases};
use sobench_plan::dataset::Cell;
use sobench_plan::metrics::MetricsSettings;
use sobench_results::metrics::cells::{CellMap, items_for_loss};
use sobench_statistics::bootstrap::SplitMix;

/// Whether a cell is beyond a cliff.
type IsBeyond = fn(Cell) -> bool;

/// The share of items that a cliff loses, and of those that each cell gets wrong by chance.
const LOSS: f64 = 0.1;
const NOISE: f64 = 0.02;

/// Simulated maps of each kind. `SOBENCH_COMPARISONS=1000` makes more.
fn maps() -> u64 {
    let given = std::env::var("SOBENCH_COMPARISONS").ok();
    given.map_or(20, |count| count.parse().unwrap())
}

fn cells() -> Vec<Cell> {
    let row = |tools| {
        [1000, 8000, 32_000].map(|tokens| Cell {
            tools: Some(tools),
            context_tokens: Some(tokens),
            turn: None,
        })
    };
    [4, 16, 48].into_iter().flat_map(row).collect()
}

fn turns() -> Vec<Cell> {
    let turn = |turn| Cell {
        turn: Some(turn),
        ..Cell::default()
    };
    (1..=8).map(turn).collect()
}

/// The map of a run in which calls are missing in cells beyond a cliff.
fn map(cells: &[Cell], items: usize, seed: u64, is_beyond: IsBeyond) -> CellMap {
    let mut random = SplitMix::new(seed, 0);
    let leak = Verdict::Invalid {
        reason: Reason::ToolCall(ToolCallFault::MissingCall),
    };
    let requests: Vec<TestRequest<'_>> = (0..items * cells.len())
        .map(|index| {
            let loss = if is_beyond(cells[index % cells.len()]) {
                LOSS
            } else {
                0.0
            };
            let is_lost = random.unit() < loss || random.unit() < NOISE;
            TestRequest {
                verdict: if is_lost {
                    leak.clone()
                } else {
                    Verdict::Valid
                },
                ..test_request()
            }
        })
        .collect();
    let place = |index: usize, case: &mut Case| {
        let (item, cell) = ((index / cells.len()) as u32, cells[index % cells.len()]);
        case.item = Some(item);
        case.turn = cell.turn.map(|turn| {
            Arc::new(Turn {
                session: item,
                turn,
                ..Turn::default()
            })
        });
        case.tags.extend(cell.tags());
        // No request is a copy of another.
        case.prompt = Prompt::Text(index.to_string().into());
    };
    with_cases(&requests, place, |samples| {
        CellMap::new(samples, &MetricsSettings::default()).unwrap()
    })
}

/// Of the simulated maps, those that name the first cell beyond the cliff, and those that name one
/// before it.
fn found(cells: &[Cell], items: usize, first: Cell, is_beyond: IsBeyond) -> (usize, usize) {
    let seen = (0..maps()).into_par_iter().map(|seed| {
        let map = map(cells, items, seed, is_beyond);
        let is_found = map.first_worse.iter().any(|worse| worse.cell == first);
        let is_false = map.worse.iter().any(|cell| !is_beyond(*cell));
        (usize::from(is_found), usize::from(is_false))
    });
    seen.reduce(|| (0, 0), |one, other| (one.0 + other.0, one.1 + other.1))
}

#[test]
fn cliffs_are_found_in_their_cell_and_no_other() {
    let maps = maps() as f64;
    let cell = |tools, tokens| Cell {
        tools: Some(tools),
        context_tokens: Some(tokens),
        turn: None,
    };
    let turn_4 = Cell {
        turn: Some(4),
        ..Cell::default()
    };
    let kinds: [(&str, Vec<Cell>, Cell, IsBeyond); 4] = [
        ("tools", cells(), cell(16, 1000), |cell| {
            cell.tools > Some(12)
        }),
        ("context", cells(), cell(4, 32_000), |cell| {
            cell.context_tokens > Some(8000)
        }),
        ("both", cells(), cell(16, 8000), |cell| {
            cell.tools > Some(12) && cell.context_tokens > Some(1000)
        }),
        ("turn", turns(), turn_4, |cell| cell.turn > Some(3)),
    ];
    for (name, cells, first, is_beyond) in kinds {
        let items = items_for_loss(cells.len(), LOSS, NOISE).unwrap();
        let (found, wrong) = found(&cells, items, first, is_beyond);
        println!("{name}, {items} items: {found} of {maps} found, {wrong} with a false cell");
        let slack = |share: f64| 3.0 * (maps * share * (1.0 - share)).sqrt();
        assert!(found as f64 >= maps * 0.95 - slack(0.95), "{name}: {found}");
        assert!(wrong as f64 <= maps * 0.05 + slack(0.05), "{name}: {wrong}");
    }
}

#[test]
fn a_faithful_server_has_no_worse_cell() {
    let (_, wrong) = found(&cells(), 120, Cell::default(), |_| false);
    println!("faithful: {wrong} of {} with a false cell", maps());
    let most = maps() as f64 * 0.05;
    assert!(wrong as f64 <= most + 3.0 * most.sqrt(), "{wrong}");
}

#[test]
fn a_map_has_figures_of_each_cell_and_the_cause() {
    let map = map(&cells(), 120, 1, |cell| cell.tools > Some(12));
    assert_eq!(map.cells.len(), 9);
    assert_eq!(map.comparisons, 8);
    assert!(map.cells.iter().all(|values| values.requests == 120));
    let worse = &map.first_worse[0];
    assert_eq!(
        (worse.cell.tools, worse.cell.context_tokens),
        (Some(16), Some(1000))
    );
    let (cause, count) = worse.cause.unwrap();
    assert_eq!((cause, count), ("missing_call", worse.lost));
    assert!(map.visible_loss_points.unwrap() < 30.0);
}
