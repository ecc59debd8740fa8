import journal from './meta/_journal.json';
import m0000 from './0000_signal_store.sql';
import m0001 from './0001_data_care_and_pages.sql';
import m0002 from './0002_backfill_days.sql';
import m0003 from './0003_orders_of_lists.sql';
import m0004 from './0004_compact_days.sql';
import m0005 from './0005_indexes_by_block.sql';
import m0006 from './0006_timelines.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001,
m0002,
m0003,
m0004,
m0005,
m0006
    }
  }
  