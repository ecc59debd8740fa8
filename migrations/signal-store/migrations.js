import journal from './meta/_journal.json';
import m0000 from './0000_signal_store.sql';
import m0001 from './0001_fuzzy_goblin_queen.sql';
import m0002 from './0002_data_care.sql';
import m0003 from './0003_orders_of_lists.sql';

  export default {
    journal,
    migrations: {
      m0000,
m0001,
m0002,
m0003
    }
  }
  